package delegate_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/netconf"
)

const plain = `{"cniVersion":"1.1.0","name":"net","type":"fake"}`

// program writes a shell script as the plugin "fake" into a new folder and returns the folder.
func program(t *testing.T, script string) string {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "fake"), "#!/bin/sh\n"+script+"\n", 0o755)
	return dir
}

func write(t testing.TB, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

// call makes a request; dirs are CNI_PATH. GC finds an empty list of attachments in the configuration.
func call(t *testing.T, command netconf.Command, config string, dirs ...string) *netconf.Request {
	t.Helper()
	env := map[string]string{"CNI_COMMAND": string(command), "CNI_CONTAINERID": "c1", "CNI_NETNS": "/run/netns/none",
		"CNI_IFNAME": "eth0", "CNI_ARGS": "IgnoreUnknown=1;A=b=c;K8S_POD_UID=", "CNI_PATH": strings.Join(dirs, ":")}
	if command == netconf.GC {
		config = patch(t, config, "cni.dev/valid-attachments", "[]")
	}
	req, err := netconf.Parse(func(key string) string { return env[key] }, strings.NewReader(config))
	if err != nil {
		t.Fatal(err)
	}
	req.Environ = []string{"PATH=" + os.Getenv("PATH"), "CNI_IFNAME=other", "OWN=word"}
	return req
}

func patch(t *testing.T, config, key, value string) string {
	t.Helper()
	out, err := netconf.Patch([]byte(config), key, []byte(value))
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// quiet is a program whose stderr stays out of the test's output.
func quiet() delegate.Exec { return delegate.Exec{Stderr: &bytes.Buffer{}} }

// wants fails the test unless err has the code, is of this room's type and has all the words.
func wants(t *testing.T, err error, code uint, words ...string) {
	t.Helper()
	if err == nil || netconf.Code(err) != code {
		t.Fatalf("error %v, code %d: expected code %d", err, netconf.Code(err), code)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("error %q: expected %q in it", err, word)
		}
	}
}

// plugin is a Plugin made of a function that notes the verbs it is called with.
type plugin struct {
	mu    sync.Mutex
	verbs []netconf.Command
	answer
}

type answer func(ctx context.Context, req *netconf.Request) error

func (p *plugin) do(ctx context.Context, req *netconf.Request) error {
	p.mu.Lock()
	p.verbs = append(p.verbs, req.Command)
	p.mu.Unlock()
	return p.answer(ctx, req)
}

func (p *plugin) calls() string { return fmt.Sprint(p.verbs) }
