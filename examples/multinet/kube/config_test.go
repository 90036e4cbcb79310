package kube_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/examples/multinet/kube"
	"github.com/cnikit/cnikit/examples/multinet/kube/kubetest"
	"github.com/cnikit/cnikit/netconf"
)

// kubeconfig is one with further keys of the cluster and the user.
func kubeconfig(server, cluster, user string) string {
	if cluster != "" {
		cluster = ", " + cluster
	}
	return fmt.Sprintf("current-context: x\ncontexts: [{name: other, context: {cluster: z, user: z}}, {name: x, context: {cluster: c, user: u}}]\n"+
		"clusters: [{name: c, cluster: {server: %q%s}}]\nusers: [{name: u, user: {%s}}]\n", server, cluster, user)
}

func TestLoad(t *testing.T) {
	t.Parallel()
	const server = "https://10.0.0.1"
	for _, test := range []struct {
		name, text string
		code       uint   // 0: it is loaded
		part       string // of the error
	}{
		{"token", kubeconfig(server, "", "token: t"), 0, ""},
		{"file of a token", kubeconfig(server, "", "tokenFile: good"), 0, ""},
		{"path in the server", kubeconfig("https://[fd00::1]:6443/k8s/clusters/c/", "", "token: t"), 0, ""},
		{"JSON", `{"current-context":"x","contexts":[{"name":"x","context":{"cluster":"c","user":"u"}}],"clusters":[{"name":"c","cluster":{"server":"http://a"}}],"users":[{"name":"u","user":{}}]}`, 0, ""},
		{"nobody", "current-context: x\ncontexts: [{name: x, context: {cluster: c}}]\nclusters: [{name: c, cluster: {server: 'http://a'}}]", 0, ""},
		{"other kubeconfig's keys", "kind: Config\npreferences: {}\nextensions: [1]\n" + kubeconfig(server, "disable-compression: true", "token: t"), 0, ""},
		{"empty", "", 7, "current-context"},
		{"not YAML", "a: [", 7, "yaml"},
		{"a list", "[1]", 7, "array"},
		{"no such context", "current-context: gone\n", 7, `"gone"`},
		{"no such cluster", "current-context: x\ncontexts: [{name: x, context: {cluster: c}}]", 7, `cluster "c"`},
		{"no such user", "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\nclusters: [{name: c, cluster: {server: 'http://a'}}]", 7, `user "u"`},
		{"no server", kubeconfig("", "", "token: t"), 7, "server"},
		{"no scheme", kubeconfig("10.0.0.1:6443", "", "token: t"), 7, "server"},
		{"another scheme", kubeconfig("unix:///run/x", "", "token: t"), 7, "server"},
		{"password in the server", kubeconfig("https://user:secret@10.0.0.1", "", ""), 7, "server"},
		{"password in what is no server", kubeconfig("ftp://user:secret@10.0.0.1", "", ""), 7, "server"},
		{"names given twice", "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}, {name: x, context: {cluster: z}}]\n" +
			"clusters: [{name: c, cluster: {server: 'http://a'}}, {name: c}]\nusers: [{name: u}, {name: u, user: {exec: {}}}]", 0, ""},
		{"authority of garbage", kubeconfig(server, "certificate-authority-data: Z2FyYmFnZQ==", ""), 7, "certificate-authority"},
		{"authority not base64", kubeconfig(server, "certificate-authority-data: '%'", ""), 7, "base64"},
		{"authority not there", kubeconfig(server, "certificate-authority: gone.crt", ""), 7, "gone.crt"},
		{"certificate without a key", kubeconfig(server, "", "client-certificate: good"), 7, "client-certificate"},
		{"key not there", kubeconfig(server, "", "client-certificate: good, client-key: gone.key"), 7, "gone.key"},
		{"file of a token not there", kubeconfig(server, "", "tokenFile: gone, token: t"), 7, "gone"},
		{"file of a token empty", kubeconfig(server, "", "tokenFile: blank"), 7, "empty"},
		{"exec", kubeconfig(server, "", "exec: {command: aws}"), 7, "exec"},
		{"auth-provider", kubeconfig(server, "", "auth-provider: {name: gcp}"), 7, "auth-provider"},
		{"password", kubeconfig(server, "", "username: a, password: secret"), 7, "username"},
		{"as another", kubeconfig(server, "", "as: admin"), 7, `"as"`},
		{"proxy", kubeconfig(server, "proxy-url: 'http://'", ""), 7, "proxy-url"},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "kubeconfig")
		for name, text := range map[string]string{"kubeconfig": test.text, "good": "token\n", "blank": "\n"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		_, err := kube.Load(path, nil)
		if netconf.Code(err) != test.code {
			t.Errorf("%s: %v, code %d, want %d", test.name, err, netconf.Code(err), test.code)
		} else if err != nil && (!strings.Contains(err.Error(), test.part) || !strings.Contains(err.Error(), path) || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%s: %v, want %q in it", test.name, err, test.part)
		}
		if errors.Is(err, kube.ErrNone) {
			t.Errorf("%s: a kubeconfig that is wrong is one: %v", test.name, err)
		}
	}
	_, err := kube.Load("/not/there", nil)
	if !errors.Is(err, kube.ErrNone) || netconf.Code(err) != 5 {
		t.Errorf("no file: %v", err)
	}
	if _, err = kube.Load(t.TempDir(), nil); errors.Is(err, kube.ErrNone) || netconf.Code(err) != 5 {
		t.Errorf("a folder: %v", err)
	}
	if _, err = kube.Load("", []string{"KUBERNETES_SERVICE_HOST=::1"}); !errors.Is(err, kube.ErrNone) {
		t.Errorf("no pod: %v", err)
	}
}

// The token that counts is the one in the file at the time of a request.
func TestTokenRotates(t *testing.T) {
	t.Parallel()
	api := kubetest.New(t, kubetest.Options{Token: "old", TLS: true})
	api.Apply(t, objects)
	dir := t.TempDir()
	path, token := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "token")
	write := func(path, text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(token, "old\n")
	write(path, kubeconfig(api.URL, "insecure-skip-tls-verify: true", "tokenFile: token"))
	c, err := kube.Load(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Pod(within(t), "default", "web"); err != nil {
		t.Error(err)
	}
	api.Rotate("new")
	if _, err := c.Pod(within(t), "default", "web"); !errors.Is(err, kube.ErrUnauthorized) {
		t.Errorf("an old token: %v", err)
	}
	write(token, "new\n")
	if _, err := c.Pod(within(t), "default", "web"); err != nil {
		t.Error(err)
	}
}

// Over plain HTTP whoever listens would have the token.
func TestTokenOverHTTP(t *testing.T) {
	t.Parallel()
	sent := make(chan string, 1)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { sent <- r.Header.Get("Authorization") }))
	defer server.Close()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, []byte(kubeconfig(server.URL, "", "token: secret")), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := kube.Load(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Ready(within(t)); err != nil {
		t.Error(err)
	}
	if got := <-sent; got != "" {
		t.Errorf("sent: %q", got)
	}
}

// A server with a certificate of somebody else's is not asked again, nor one that speaks plain HTTP.
func TestAuthority(t *testing.T) {
	t.Parallel()
	secure := kubetest.New(t, kubetest.Options{TLS: true})
	secure.Apply(t, objects)
	plain := kubetest.New(t, kubetest.Options{})
	for _, test := range []struct {
		url, cluster string
		part         string // of the error; empty: none
	}{
		{secure.URL, "", "certificate"},
		{secure.URL, "insecure-skip-tls-verify: true", ""},
		{strings.Replace(plain.URL, "http:", "https:", 1), "", "HTTP response to HTTPS"},
	} {
		path := filepath.Join(t.TempDir(), "kubeconfig")
		if err := os.WriteFile(path, []byte(kubeconfig(test.url, test.cluster, "token: token")), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := kube.Load(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Pod(within(t), "default", "web")
		if test.part == "" {
			if err != nil {
				t.Errorf("%s: %v", test.cluster, err)
			}
			continue
		}
		var it *kube.Error
		if !errors.As(err, &it) || it.Tries != 1 || netconf.Code(err) != 7 || !strings.Contains(err.Error(), test.part) {
			t.Errorf("%s: %v, code %d, want code 7 and %q", test.url, err, netconf.Code(err), test.part)
		}
	}
}

// A proxy is taken where the kubeconfig or the environment says so, of which the kubeconfig counts first.
func TestProxy(t *testing.T) {
	t.Parallel()
	var asked []string
	proxy := func(name string) *httptest.Server {
		return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked = append(asked, name+" "+r.URL.String())
			fmt.Fprint(w, `{"metadata": {"uid": "u"}}`)
		}))
	}
	one, two := proxy("one"), proxy("two")
	defer one.Close()
	defer two.Close()
	const target = "http://api.example"
	for _, test := range []struct {
		cluster string
		environ []string
		want    string // who was asked; empty: nobody
	}{
		{"", []string{"HTTP_PROXY=" + one.URL}, "one"},
		{"", []string{"http_proxy=" + one.URL, "HTTPS_PROXY=" + two.URL}, "one"},
		{fmt.Sprintf("proxy-url: %q", two.URL), []string{"HTTP_PROXY=" + one.URL}, "two"},
		{"", []string{"HTTP_PROXY=" + one.URL, "NO_PROXY=.example"}, ""},
		{"", nil, ""},
	} {
		asked = nil
		path := filepath.Join(t.TempDir(), "kubeconfig")
		if err := os.WriteFile(path, []byte(kubeconfig(target, test.cluster, "")), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := kube.Load(path, test.environ)
		if err != nil {
			t.Fatal(err)
		}
		_ = c.Ready(within(t)) // without a proxy there is no such server
		want := "[]"
		if test.want != "" {
			want = fmt.Sprintf("[%s %s/readyz]", test.want, target)
		}
		if got := fmt.Sprint(asked); got != want {
			t.Errorf("%v, %s: %s, want %s", test.environ, test.cluster, got, want)
		}
	}
}

// Whatever a kubeconfig is made of, it is a client or an error that names the file.
func FuzzLoad(f *testing.F) {
	for _, text := range []string{
		kubeconfig("https://10.0.0.1", "certificate-authority-data: Z2FyYmFnZQ==, proxy-url: 'http://a'", "token: hidden1"),
		kubeconfig("http://u:hidden1@a", "insecure-skip-tls-verify: true", "client-certificate-data: aGlkZGVuMQ==, client-key-data: aGlkZGVuMQ=="),
		"current-context: x\ncontexts: [{name: x, context: {cluster: &a c, user: *a}}]\nclusters: null\nusers: [{name: 1}]",
		"a: &a [*a]", "!!binary x", "\x00", "{", "- ",
	} {
		f.Add(text)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(dir, "kubeconfig")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := kube.Load(path, nil)
		if (c == nil) == (err == nil) {
			t.Fatalf("%v, %v", c, err)
		}
		if err != nil && (netconf.Code(err) != 7 || !strings.Contains(err.Error(), path)) {
			t.Errorf("%v, code %d", err, netconf.Code(err))
		}
	})
}
