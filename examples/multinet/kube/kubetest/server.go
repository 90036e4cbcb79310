package kubetest

import (
	"cmp"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// Options may be left zero.
type Options struct {
	TLS     bool   // https, with HTTP/2; else plain HTTP, by which everybody may ask, for clients send no token there
	Token   string // of who may ask; default "token"
	Listen  string // address and port; default 127.0.0.1 and any port
	Lenient bool   // a PUT of a pod's status is taken as well
}

// Server is an API server. Its methods may be called while requests come.
type Server struct {
	URL string

	http    *httptest.Server
	lenient bool

	mu       sync.Mutex // guards what follows
	token    string
	latency  time.Duration
	objects  map[string]object // by path
	version  int               // the last resourceVersion
	events   []Event
	faults   []*Fault
	requests []Request
	now      int // requests that are served at this moment
	accepted int // connections
}

// object is one of the API, as encoding/json decodes it.
type object = map[string]any

// Request is one that came.
type Request struct {
	Method, Path string
	Media        string // of the body
	Body         string
	AtOnce       int // how many others were being served when it came
}

// String is method and path.
func (r Request) String() string { return r.Method + " " + r.Path }

// Event is one that was posted.
type Event struct {
	Type, Reason, Message string
	Pod                   string // "namespace/name"
	UID                   string // of the pod
}

// Start starts a server; [Server.Close] ends it.
func Start(options Options) (*Server, error) {
	listener, err := net.Listen("tcp", cmp.Or(options.Listen, "127.0.0.1:0"))
	if err != nil {
		return nil, err
	}
	s := &Server{token: cmp.Or(options.Token, "token"), lenient: options.Lenient, objects: map[string]object{}}
	s.http = &httptest.Server{Listener: listener, EnableHTTP2: true, Config: &http.Server{Handler: s, ConnState: s.count, ErrorLog: log.New(io.Discard, "", 0)}}
	if options.TLS {
		s.http.StartTLS()
	} else {
		s.http.Start()
	}
	s.URL = s.http.URL
	return s, nil
}

// New starts a server that ends with the test.
func New(t testing.TB, options Options) *Server {
	t.Helper()
	s, err := Start(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// Close ends the server and its connections: the next one is refused.
func (s *Server) Close() {
	s.http.CloseClientConnections()
	s.http.Close()
}

// Client trusts the server's certificate. It sends no token by itself.
func (s *Server) Client() *http.Client { return s.http.Client() }

// WriteKubeconfig writes the file of a client that may ask. It is valid YAML, and not JSON.
func (s *Server) WriteKubeconfig(path string) error {
	s.mu.Lock()
	token := s.token
	s.mu.Unlock()
	authority := ""
	if certificate := s.http.Certificate(); certificate != nil {
		text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Raw})
		authority = ", certificate-authority-data: " + base64.StdEncoding.EncodeToString(text)
	}
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters:\n- name: c\n  cluster: {server: %q%s}\nusers:\n- name: u\n  user: {token: %s}\n"+
		"contexts:\n- name: x\n  context: {cluster: c, user: u}\ncurrent-context: x\n", s.URL, authority, token)
	return os.WriteFile(path, []byte(text), 0o600)
}

// Kubeconfig is WriteKubeconfig, or the test fails.
func (s *Server) Kubeconfig(t testing.TB, path string) {
	t.Helper()
	if err := s.WriteKubeconfig(path); err != nil {
		t.Fatal(err)
	}
}

// plurals are the kinds that are served.
var plurals = map[string]string{
	"Pod":                         "/api/v1/namespaces/%s/pods/%s",
	"NetworkAttachmentDefinition": "/apis/k8s.cni.cncf.io/v1/namespaces/%s/network-attachment-definitions/%s",
	"ResourceClaim":               "/apis/resource.k8s.io/v1/namespaces/%s/resourceclaims/%s",
}

// ApplyManifest creates or replaces objects: YAML or JSON, with "---" between them. A namespace is "default" if there
// is none, a pod's UID "uid-" and its name.
func (s *Server) ApplyManifest(manifest string) error {
	for text := range strings.SplitSeq("\n"+manifest, "\n---") {
		var o object
		if err := yaml.Unmarshal([]byte(text), &o); err != nil {
			return err
		}
		if o == nil {
			continue
		}
		kind, _ := o["kind"].(string)
		metadata, _ := o["metadata"].(object)
		name, _ := metadata["name"].(string)
		if plurals[kind] == "" || name == "" {
			return fmt.Errorf("kind %q, name %q: a Pod, NetworkAttachmentDefinition or ResourceClaim with a name is served", kind, name)
		}
		namespace, ok := metadata["namespace"].(string)
		if !ok {
			namespace = "default"
			metadata["namespace"] = namespace
		}
		if metadata["uid"] == nil {
			metadata["uid"] = "uid-" + name
		}
		s.mu.Lock()
		s.store(fmt.Sprintf(plurals[kind], namespace, name), o)
		s.mu.Unlock()
	}
	return nil
}

// Apply is ApplyManifest, or the test fails.
func (s *Server) Apply(t testing.TB, manifest string) {
	t.Helper()
	if err := s.ApplyManifest(manifest); err != nil {
		t.Fatal(err)
	}
}

// store puts an object where it belongs; s.mu is held.
func (s *Server) store(path string, o object) {
	s.version++
	o["metadata"].(object)["resourceVersion"] = fmt.Sprint(s.version)
	s.objects[path] = o
}

// Delete takes an object away; kind is as in a manifest.
func (s *Server) Delete(kind, namespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.objects, fmt.Sprintf(plurals[kind], namespace, name))
}

// Annotations are those that a pod has now; nil without a pod.
func (s *Server) Annotations(namespace, name string) map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	pod := s.objects[fmt.Sprintf(plurals["Pod"], namespace, name)]
	if pod == nil {
		return nil
	}
	found := map[string]string{}
	annotations, _ := pod["metadata"].(object)["annotations"].(object)
	for key, value := range annotations {
		found[key] = fmt.Sprint(value)
	}
	return found
}

// Latency is how long each answer takes from now on.
func (s *Server) Latency(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.latency = d
}

// Rotate replaces the token: from now on the old one is refused.
func (s *Server) Rotate(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = token
}

// Requests are those that came since the last call of Forget, in their order.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.requests...)
}

// Connections is how many clients have made.
func (s *Server) Connections() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.accepted
}

func (s *Server) count(_ net.Conn, state http.ConnState) {
	if state == http.StateNew {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.accepted++
	}
}

// Forget forgets the requests and events that came.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests, s.events = nil, nil
}

// Events are those that were posted, in their order.
func (s *Server) Events() []Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Event(nil), s.events...)
}
