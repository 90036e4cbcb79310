package kube

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/net/http/httpproxy"
	"sigs.k8s.io/yaml"

	"github.com/cnikit/cnikit/netconf"
)

// serviceAccount is where kubelet mounts the credentials of a pod.
const serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount"

// Load makes a client from a kubeconfig file: its current context. Paths in it are relative to its folder. With an
// empty path it is the client of the pod that the process runs in, by the service account that kubelet mounts, and
// environ says where the API server is. environ is an environment, "K=V": KUBERNETES_SERVICE_HOST and _PORT, and
// HTTPS_PROXY, HTTP_PROXY and NO_PROXY, which a proxy-url in the kubeconfig goes before. Nothing is sent yet.
//
// The error is one with ErrNone if there is no file of that name, or no pod around the process.
func Load(kubeconfig string, environ []string) (*Client, error) {
	if kubeconfig == "" {
		return inCluster(serviceAccount, environ)
	}
	text, err := os.ReadFile(kubeconfig)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = fmt.Errorf("%w: %w", ErrNone, err)
		}
		return nil, fileError("read kubeconfig", kubeconfig, netconf.CodeIOFailure, err)
	}
	var conf config
	client, err := (*Client)(nil), yaml.Unmarshal(text, &conf)
	if err == nil {
		client, err = conf.client(filepath.Dir(kubeconfig), environ)
	}
	if err != nil {
		return nil, fileError("read kubeconfig", kubeconfig, netconf.CodeInvalidNetworkConfig, err)
	}
	return client, nil
}

// inCluster makes the client of a pod whose service account is mounted at dir.
func inCluster(dir string, environ []string) (*Client, error) {
	host, port := variable(environ, "KUBERNETES_SERVICE_HOST"), variable(environ, "KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, fileError("read service account", dir, netconf.CodeInvalidNetworkConfig, ErrNone)
	}
	c := cluster{Server: "https://" + net.JoinHostPort(host, port), CA: filepath.Join(dir, "ca.crt")}
	client, err := newClient(dir, c, user{TokenFile: filepath.Join(dir, "token")}, environ)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: %w", ErrNone, err)
	}
	if err != nil {
		return nil, fileError("read service account", dir, netconf.CodeInvalidNetworkConfig, err)
	}
	return client, nil
}

// variable is the value of an environment variable; the last counts, as in a process.
func variable(environ []string, name string) string {
	value := ""
	for _, pair := range environ {
		if k, v, _ := strings.Cut(pair, "="); k == name {
			value = v
		}
	}
	return value
}

// config is a kubeconfig, as far as it says where the API server is and who asks.
type config struct {
	Current  string `json:"current-context"`
	Contexts []struct {
		Name    string                         `json:"name"`
		Context struct{ Cluster, User string } `json:"context"`
	} `json:"contexts"`
	Clusters []struct {
		Name    string  `json:"name"`
		Cluster cluster `json:"cluster"`
	} `json:"clusters"`
	Users []struct {
		Name string `json:"name"`
		User user   `json:"user"`
	} `json:"users"`
}

type cluster struct {
	Server     string `json:"server"`
	CA         string `json:"certificate-authority"`
	CAData     []byte `json:"certificate-authority-data"`
	Insecure   bool   `json:"insecure-skip-tls-verify"`
	ServerName string `json:"tls-server-name"`
	ProxyURL   string `json:"proxy-url"`
}

type user struct {
	Token        string `json:"token"`
	TokenFile    string `json:"tokenFile"` // goes before token, as in client-go
	Cert         string `json:"client-certificate"`
	CertData     []byte `json:"client-certificate-data"`
	Key          string `json:"client-key"`
	KeyData      []byte `json:"client-key-data"`
	Exec         any    `json:"exec"`
	AuthProvider any    `json:"auth-provider"`
	Username     string `json:"username"`
	As           string `json:"as"`
}

// client makes the client of the current context.
func (c *config) client(dir string, environ []string) (*Client, error) {
	for _, chosen := range c.Contexts {
		if chosen.Name != c.Current {
			continue
		}
		var server *cluster
		for i := range slices.Backward(c.Clusters) { // of a name given twice the first counts
			if c.Clusters[i].Name == chosen.Context.Cluster {
				server = &c.Clusters[i].Cluster
			}
		}
		var who *user
		for i := range slices.Backward(c.Users) {
			if c.Users[i].Name == chosen.Context.User {
				who = &c.Users[i].User
			}
		}
		switch {
		case server == nil:
			return nil, fmt.Errorf("context %q: there is no cluster %q", chosen.Name, chosen.Context.Cluster)
		case who == nil && chosen.Context.User != "":
			return nil, fmt.Errorf("context %q: there is no user %q", chosen.Name, chosen.Context.User)
		case who == nil:
			who = &user{} // anonymous
		}
		return newClient(dir, *server, *who, environ)
	}
	return nil, fmt.Errorf("current-context: there is no context %q", c.Current)
}

// newClient makes a client; files that the two name are relative to dir.
func newClient(dir string, c cluster, u user, environ []string) (*Client, error) {
	server, err := url.Parse(c.Server)
	if err == nil && server.User != nil {
		return nil, errors.New("server: a user in the URL is not supported")
	}
	if err != nil || server.Host == "" || server.Scheme != "https" && server.Scheme != "http" {
		return nil, fmt.Errorf("server: %q is no URL such as https://10.0.0.1:443", c.Server)
	}
	for key, set := range map[string]bool{"exec": u.Exec != nil, "auth-provider": u.AuthProvider != nil, "username": u.Username != "", "as": u.As != ""} {
		if set {
			return nil, fmt.Errorf("user: %q is not supported; a token, a tokenFile and a client-certificate are", key)
		}
	}
	secure, err := tlsConfig(dir, &c, &u)
	if err != nil {
		return nil, err
	}
	proxy, err := proxyOf(c.ProxyURL, environ)
	if err != nil {
		return nil, err
	}
	client := &Client{url: strings.TrimRight(c.Server, "/"), http: newHTTP(secure, proxy)}
	if server.Scheme == "http" {
		return client, nil // whoever listens would have the token: client-go sends none there either
	}
	client.token = u.Token
	if u.TokenFile != "" {
		client.tokenFile = resolve(dir, u.TokenFile)
		if _, err := client.bearer(); err != nil { // now, where it is the kubeconfig's fault, and not at a request
			return nil, err
		}
	}
	return client, nil
}

// proxyOf says which proxy a request takes, if any.
func proxyOf(own string, environ []string) (func(*http.Request) (*url.URL, error), error) {
	if own != "" {
		u, err := url.Parse(own)
		if err != nil || u.Host == "" {
			return nil, fmt.Errorf("proxy-url: %q is no URL", own)
		}
		return http.ProxyURL(u), nil
	}
	either := func(name string) string {
		return cmp.Or(variable(environ, name), variable(environ, strings.ToLower(name)))
	}
	of := (&httpproxy.Config{HTTPProxy: either("HTTP_PROXY"), HTTPSProxy: either("HTTPS_PROXY"), NoProxy: either("NO_PROXY")}).ProxyFunc()
	return func(r *http.Request) (*url.URL, error) { return of(r.URL) }, nil
}

// tlsConfig is what the connection's two ends prove themselves by.
func tlsConfig(dir string, c *cluster, u *user) (*tls.Config, error) {
	conf := &tls.Config{ServerName: c.ServerName, InsecureSkipVerify: c.Insecure}
	ca, err := either(dir, c.CA, c.CAData)
	if err != nil {
		return nil, err
	}
	if ca != nil && !c.Insecure {
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(ca) {
			return nil, errors.New("certificate-authority: there is no certificate in it")
		}
	}
	if u.Cert == "" && u.CertData == nil && u.Key == "" && u.KeyData == nil {
		return conf, nil
	}
	pair := func() (*tls.Certificate, error) {
		cert, err := either(dir, u.Cert, u.CertData)
		if err != nil {
			return nil, err
		}
		key, err := either(dir, u.Key, u.KeyData)
		if err != nil {
			return nil, err
		}
		pair, err := tls.X509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("client-certificate, client-key: %w", err)
		}
		return &pair, nil
	}
	if _, err := pair(); err != nil {
		return nil, err
	}
	// Read again for each handshake: kubelet replaces its own.
	conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair() }
	return conf, nil
}

// either is what a kubeconfig has inline, or else in a file; nil if neither.
func either(dir, path string, data []byte) ([]byte, error) {
	if data != nil || path == "" {
		return data, nil
	}
	return os.ReadFile(resolve(dir, path))
}

func resolve(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}
