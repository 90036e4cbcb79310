package cluster

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cnikit/cnikit/skel/skeltest"
)

// ServiceAddress is the address of the API server inside a cluster, at port 443: what a pod finds in its
// environment as KUBERNETES_SERVICE_HOST. Each node leads it to the API server.
const ServiceAddress = "10.0.0.1"

// APIOptions may be left zero.
type APIOptions struct {
	Args []string // further arguments of kube-apiserver; a flag among them goes before ours of the same name
}

// API is a kube-apiserver with its etcd. Its state is in a folder of the test; all of it is gone when the
// test ends.
type API struct {
	URL        string  // https://127.0.0.1:PORT, from the test's namespace
	NodeURL    string  // the same server from a node
	CA         string  // file with the certificate of its authority
	Kubeconfig string  // file for a client in the test's namespace, as an administrator who may do everything
	Admin      *Client // speaks as that administrator
	// KubectlPath is the program kubectl. It is static: it runs in nodes and, mounted, in pods too.
	KubectlPath string

	dir       string
	programs  programs
	authority *authority
	admin     credential
	network   *network
	ports     struct{ api, etcd, peer int }
	args      []string

	mu              sync.Mutex // guards what follows
	etcd, apiserver *process
	nodes, pods     int // how many there have been
}

// StartAPI starts an API server and waits until it is ready: three seconds, if the programs are built. The
// default service account of the namespaces default and kube-system is there, so pods can be created in them.
func StartAPI(t testing.TB, options APIOptions) *API {
	t.Helper()
	skeltest.NeedRoot(t)
	a := &API{programs: build(t), dir: t.TempDir(), args: options.Args}
	a.KubectlPath = a.programs.kubectl
	a.ports.api, a.ports.etcd, a.ports.peer = reservePort(t), reservePort(t), reservePort(t)
	a.network = newNetwork(t)
	a.URL = fmt.Sprintf("https://127.0.0.1:%d", a.ports.api)
	a.NodeURL = fmt.Sprintf("https://%s:%d", a.network.address(1), a.ports.api)
	if err := a.prepare(); err != nil {
		t.Fatalf("prepare an API server: %v", err)
	}
	t.Cleanup(func() {
		logOnFailure(t, a.etcd, a.apiserver)
		a.Kill()
	})
	a.Start(t)
	for _, namespace := range []string{"default", "kube-system"} {
		a.populate(t, namespace)
	}
	return a
}

// prepare writes the keys and certificates, and what the administrator needs.
func (a *API) prepare() error {
	var err error
	if a.authority, err = newAuthority(); err != nil {
		return err
	}
	if a.admin, err = a.authority.issue("admin", []string{"system:masters"}); err != nil {
		return err
	}
	server, err := a.authority.issue("kube-apiserver", nil, "127.0.0.1", "localhost", a.network.address(1), ServiceAddress,
		"kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local")
	if err != nil {
		return err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	accounts, err := encodeKey(key)
	if err != nil {
		return err
	}
	a.CA, a.Kubeconfig = a.file("ca.crt"), a.file("kubeconfig")
	for name, text := range map[string][]byte{
		"ca.crt": a.authority.pem, "accounts.key": accounts, "server.crt": server.cert, "server.key": server.key,
		"admin.crt": a.admin.cert, "admin.key": a.admin.key, "kubeconfig": kubeconfig(a.URL, a.authority, &a.admin, ""),
	} {
		if err := os.WriteFile(a.file(name), text, 0o600); err != nil {
			return err
		}
	}
	a.Admin, err = a.client(&a.admin, "")
	return err
}

func (a *API) file(name string) string { return filepath.Join(a.dir, name) }

// Start starts the programs that do not run, on the data and at the port of before, and waits until the API
// server is ready.
func (a *API) Start(t testing.TB) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.etcd.running() {
		etcd, err := start(a.file("etcd.log"), exec.Command(a.programs.etcd, a.etcdArgs()...))
		if err != nil {
			t.Fatal(err)
		}
		a.etcd = etcd
	}
	if !a.apiserver.running() {
		apiserver, err := start(a.file("apiserver.log"), exec.Command(a.programs.apiserver, a.apiserverArgs()...))
		if err != nil {
			t.Fatal(err)
		}
		a.apiserver = apiserver
	}
	ready := func() error {
		if !a.etcd.running() || !a.apiserver.running() {
			return fmt.Errorf("it has ended: %w", errFinal)
		}
		return a.Admin.Get(t.Context(), "/readyz", nil)
	}
	if err := eventually(t.Context(), ready); err != nil {
		t.Fatalf("API server: %v", err) // the logs follow
	}
}

// Stop asks the API server to end, and kills it when it has not after three seconds: with a watch open it
// would wait for a minute. etcd is stopped after it.
func (a *API) Stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, p := range []*process{a.apiserver, a.etcd} {
		if !p.running() {
			continue
		}
		_ = p.cmd.Process.Signal(syscall.SIGTERM) // it fails only if the program has ended meanwhile
		select {
		case <-p.done:
		case <-time.After(3 * time.Second):
			p.stop(syscall.SIGKILL)
		}
	}
}

// Kill kills the API server and etcd, as a crash of their machine would.
func (a *API) Kill() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.apiserver.stop(syscall.SIGKILL)
	a.etcd.stop(syscall.SIGKILL)
}

func (a *API) etcdArgs() []string {
	client, peer := fmt.Sprintf("http://127.0.0.1:%d", a.ports.etcd), fmt.Sprintf("http://127.0.0.1:%d", a.ports.peer)
	return []string{
		"--name=cluster", "--data-dir=" + a.file("etcd"), "--log-level=warn", "--socket-reuse-port",
		"--unsafe-no-fsync", // what was written outlives the program, if not the machine
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=cluster=" + peer,
	}
}

func (a *API) apiserverArgs() []string {
	return append([]string{
		"--etcd-servers=http://127.0.0.1:" + strconv.Itoa(a.ports.etcd),
		"--bind-address=0.0.0.0", "--secure-port=" + strconv.Itoa(a.ports.api), "--permit-port-sharing",
		"--advertise-address=" + a.network.address(1), "--endpoint-reconciler-type=none",
		"--tls-cert-file=" + a.file("server.crt"), "--tls-private-key-file=" + a.file("server.key"), "--client-ca-file=" + a.CA,
		"--kubelet-preferred-address-types=InternalIP", "--kubelet-certificate-authority=" + a.CA, "--kubelet-client-certificate=" + a.file("admin.crt"), "--kubelet-client-key=" + a.file("admin.key"),
		"--service-account-key-file=" + a.file("accounts.key"), "--service-account-signing-key-file=" + a.file("accounts.key"),
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-cluster-ip-range=10.0.0.0/24", "--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--allow-privileged",
	}, a.args...)
}

// client speaks as the user of a credential or of a token, one of which is given.
func (a *API) client(c *credential, token string) (*Client, error) {
	config, err := a.authority.clientTLS(c)
	if err != nil {
		return nil, err
	}
	// A connection of its own for each request: one that was kept may be to a server that was killed.
	transport := &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}
	return &Client{url: a.URL, token: token, http: &http.Client{Transport: transport}}, nil
}

// Kubectl runs kubectl as the administrator and returns what it printed; the test fails if it fails.
func (a *API) Kubectl(t testing.TB, args ...string) string {
	t.Helper()
	return a.kubectl(t, nil, args)
}

// Apply applies objects, YAML or JSON.
func (a *API) Apply(t testing.TB, manifest string) {
	t.Helper()
	a.kubectl(t, &manifest, []string{"apply", "-f", "-"})
}

func (a *API) kubectl(t testing.TB, stdin *string, args []string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, a.KubectlPath, append([]string{"--kubeconfig=" + a.Kubeconfig, "--cache-dir=" + a.file("kubectl")}, args...)...)
	out, err := output(cmd, stdin)
	if err != nil {
		t.Fatalf("kubectl %v: %v", args, err)
	}
	return out
}
