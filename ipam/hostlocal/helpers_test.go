package hostlocal_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/ipam/hostlocal"
	"github.com/cnikit/cnikit/netconf"
)

// call is a request, as a plugin's ipam step hands it on.
type call struct {
	verb       netconf.Command
	id, ifname string
	config     string // with @DIR@ for dataDir
	dir        string
	args       string
	log        *strings.Builder
}

const simple = `{"cniVersion":"1.1.0","name":"net","type":"bridge","ipam":{"type":"host-local","dataDir":"@DIR@","subnet":"10.0.0.0/29"}}`

// config is a configuration with an ipam section of the given keys.
func config(keys string) string {
	return `{"cniVersion":"1.1.0","name":"net","type":"bridge","ipam":{"type":"host-local","dataDir":"@DIR@",` + keys + `}}`
}

func (c call) request(t testing.TB) *netconf.Request {
	t.Helper()
	if c.id == "" {
		c.id = "c1"
	}
	if c.ifname == "" {
		c.ifname = "eth0"
	}
	if c.config == "" {
		c.config = simple
	}
	env := map[string]string{"CNI_COMMAND": string(c.verb), "CNI_CONTAINERID": c.id, "CNI_IFNAME": c.ifname, "CNI_NETNS": "/run/netns/none", "CNI_ARGS": c.args, "CNI_PATH": "/none"}
	req, err := netconf.Parse(func(key string) string { return env[key] }, strings.NewReader(strings.ReplaceAll(c.config, "@DIR@", c.dir)))
	if err != nil {
		t.Fatal(err)
	}
	req.Warn = func(msg string, args ...any) {
		if c.log != nil {
			fmt.Fprintln(c.log, append([]any{msg}, args...)...)
		}
	}
	return req
}

// serve makes the call in this process and returns the addresses of an ADD.
func (c call) serve(t testing.TB) ([]string, error) {
	t.Helper()
	req := c.request(t)
	result, err := plugin().Call(t.Context(), req)
	if err != nil || result == nil {
		return nil, err
	}
	var got []string
	for _, ip := range result.IPs {
		got = append(got, ip.Address.String()+" "+ip.Gateway.String())
	}
	return got, nil
}

func plugin() delegate.InProcess { return hostlocal.InProcess() }

// add gives one address, without its length.
func (c call) add(t testing.TB) string {
	t.Helper()
	c.verb = netconf.Add
	got, err := c.serve(t)
	if err != nil {
		t.Fatal(err)
	}
	address, _, _ := strings.Cut(got[0], "/")
	return address
}

func (c call) ok(t testing.TB, verb netconf.Command) {
	t.Helper()
	c.verb = verb
	if _, err := c.serve(t); err != nil {
		t.Fatalf("%s %s: %v", verb, c.id, err)
	}
}

// fails wants an error with a code and words.
func (c call) fails(t testing.TB, verb netconf.Command, code uint, words string) {
	t.Helper()
	c.verb = verb
	if got, err := c.serve(t); netconf.Code(err) != code || !strings.Contains(fmt.Sprint(err), words) {
		t.Errorf("%s %s: code %d, %v, %v: expected code %d and %q", verb, c.id, netconf.Code(err), got, err, code, words)
	}
}

// store lists the leases, "ADDRESS ID IFNAME".
func store(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(dir, "net"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		if e.Name() == "lock" || strings.HasPrefix(e.Name(), "last_reserved_ip.") {
			continue
		}
		content, err := os.ReadFile(filepath.Join(dir, "net", e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, e.Name()+" "+strings.ReplaceAll(string(content), "\r\n", " "))
	}
	slices.Sort(out)
	return out
}

func has(t testing.TB, dir string, want ...string) {
	t.Helper()
	slices.Sort(want)
	if got := store(t, dir); !slices.Equal(got, want) {
		t.Errorf("store %q: expected %q", got, want)
	}
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
