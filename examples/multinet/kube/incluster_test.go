package kube

import (
	"encoding/pem"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A pod's own service account: what is missing makes it none, what is broken does not.
func TestInCluster(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	environ := []string{"KUBERNETES_SERVICE_HOST=old", "KUBERNETES_SERVICE_HOST=fd00::1", "KUBERNETES_SERVICE_PORT=443"}
	if _, err := inCluster(dir, environ); !errors.Is(err, ErrNone) {
		t.Errorf("without files: %v", err)
	}
	for name, text := range map[string]string{"ca.crt": "garbage", "token": "t\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := inCluster(dir, environ); err == nil || errors.Is(err, ErrNone) || !strings.Contains(err.Error(), dir) {
		t.Errorf("an authority of garbage: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "ca.crt"), authority(), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := inCluster(dir, environ)
	if err != nil {
		t.Fatal(err)
	}
	if token, err := c.bearer(); c.url != "https://[fd00::1]:443" || token != "t" || err != nil {
		t.Errorf("%s as %q, %v", c.url, token, err)
	}
	for _, less := range [][]string{nil, environ[:2], environ[2:]} {
		if _, err := inCluster(dir, less); !errors.Is(err, ErrNone) {
			t.Errorf("environment %v: %v", less, err)
		}
	}
}

// authority is a certificate that signs others.
func authority() []byte {
	server := httptest.NewUnstartedServer(nil)
	server.StartTLS()
	defer server.Close()
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
}
