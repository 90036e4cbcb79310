package skel_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// F4: what is wrong with a DEL, and yet no reason for it to fail.
func TestF4DelNeedsNothingButItsName(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*skeltest.Call){
		"no netns":                func(c *skeltest.Call) { c.Netns = "" },
		"a netns that is gone":    func(c *skeltest.Call) { c.Netns = "/run/netns/gone" },
		"a netns that is none":    func(c *skeltest.Call) { c.Netns = "/etc/passwd" },
		"no path":                 func(c *skeltest.Call) { c.Path = "" },
		"bad args":                func(c *skeltest.Call) { c.Args = "X" },
		"no JSON":                 func(c *skeltest.Call) { c.Config = "{" },
		"nothing on stdin":        func(c *skeltest.Call) { c.Config = "" },
		"no name":                 func(c *skeltest.Call) { c.Config = `{"cniVersion":"1.1.0"}` },
		"a key of the wrong type": func(c *skeltest.Call) { c.Config = `{"cniVersion":"1.1.0","name":"net","mtu":"x"}` },
		"an unknown version":      func(c *skeltest.Call) { c.Config = `{"cniVersion":"9.9.9","name":"net"}` },
		"a broken prevResult":     func(c *skeltest.Call) { c.Prev = `{"cniVersion":"1.1.0","ips":[{"address":1}]}` },
		"a prevResult of 9.9.9":   func(c *skeltest.Call) { c.Prev = `{"cniVersion":"9.9.9"}` },
		"a strict plugin's typo":  func(c *skeltest.Call) { c.Config = `{"cniVersion":"1.1.0","name":"net","mtuu":1}` },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := &journal{}
			p := plugin(t, &step{name: "a", j: j})
			p.Strict = true
			p.Validate = func(*netconf.Request, *config) error { return errors.New("no longer makes sense") }
			c := call(netconf.Del)
			change(&c)
			c.Run(t.Context(), t, p).OK(t)
			j.want(t, "DEL a")
		})
	}
}

// All that can be known without work is refused before any: code by code.
func TestRefusedBeforeAnyWork(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		verb   netconf.Command
		change func(*skeltest.Call, *skel.Plugin[config])
		code   uint
		msg    string
	}{
		{"no container ID", netconf.Add, func(c *skeltest.Call, _ *skel.Plugin[config]) { c.ContainerID = "" }, 4, "CNI_CONTAINERID"},
		{"no interface name", netconf.Del, func(c *skeltest.Call, _ *skel.Plugin[config]) { c.IfName = "" }, 4, "CNI_IFNAME"},
		{"no netns", netconf.Add, func(c *skeltest.Call, _ *skel.Plugin[config]) { c.Netns = "" }, 4, "CNI_NETNS"},
		{"the netns is gone", netconf.Add, func(c *skeltest.Call, _ *skel.Plugin[config]) { c.Netns = "/run/netns/gone" }, 3, "/run/netns/gone"},
		{"the netns is gone, after others", netconf.Add, func(c *skeltest.Call, _ *skel.Plugin[config]) { c.Netns, c.Prev = "/run/netns/gone", prevResult }, 7, "/run/netns/gone"},
		{"the netns file is stale", netconf.Add, func(c *skeltest.Call, p *skel.Plugin[config]) { c.Netns = staleFile(p.RunDir) }, 3, "its mount is gone"},
		{"the netns is none", netconf.Add, func(c *skeltest.Call, _ *skel.Plugin[config]) { c.Netns = "/etc/passwd" }, 4, "not a network namespace"},
		{"F10: the host's netns", netconf.Add, func(c *skeltest.Call, _ *skel.Plugin[config]) { c.Env = nil }, 4, "the host's"},
		{"F10: CHECK there", netconf.Check, func(c *skeltest.Call, _ *skel.Plugin[config]) { c.Env, c.Prev = nil, prevResult }, 4, "the host's"},
		{"no command", "", func(*skeltest.Call, *skel.Plugin[config]) {}, 4, "CNI_COMMAND"},
		{"an unknown command", "UPDATE", func(*skeltest.Call, *skel.Plugin[config]) {}, 4, "CNI_COMMAND"},
		{"no JSON", netconf.Add, func(c *skeltest.Call, _ *skel.Plugin[config]) { c.Config = "{" }, 6, "line 1"},
		{"a wrong type", netconf.Add, func(c *skeltest.Call, _ *skel.Plugin[config]) {
			c.Config = `{"cniVersion":"1.1.0","name":"net","mtu":"x"}`
		}, 6, "mtu (line 1, column 42)"},
		{"F8: a typo, strict", netconf.Add, func(c *skeltest.Call, p *skel.Plugin[config]) {
			p.Strict = true
			c.Config = `{"cniVersion":"1.1.0","name":"net","mtuu":1}`
		}, 2, `did you mean "mtu"?`},
		{"Validate", netconf.Add, func(_ *skeltest.Call, p *skel.Plugin[config]) {
			p.Validate = func(req *netconf.Request, _ *config) error { return req.Invalid("mode", "no such mode") }
		}, 7, "mode: no such mode"},
		{"Reject", netconf.Add, func(_ *skeltest.Call, p *skel.Plugin[config]) {
			s := p.Steps
			p.Steps = func(req *netconf.Request, c *config) skel.Steps {
				req.Reject(req.Invalid("ipam", "no"))
				return s(req, c)
			}
		}, 7, "ipam: no"},
		{"no Steps", netconf.Add, func(_ *skeltest.Call, p *skel.Plugin[config]) { p.Steps = nil }, 999, "Name and Steps are needed"},
		{"no Name", netconf.Add, func(_ *skeltest.Call, p *skel.Plugin[config]) { p.Name = "" }, 999, "Name and Steps are needed"},
		{"two mistakes of two kinds", netconf.Add, func(c *skeltest.Call, _ *skel.Plugin[config]) {
			c.IfName, c.Config = "a/b", `{"cniVersion":"1.1.0","name":"net","mtu":"x"}`
		}, 4, "mtu (line 1"},
		{"F8: a typo, in the details of what it led to", netconf.Add, func(c *skeltest.Call, p *skel.Plugin[config]) {
			c.Config = `{"cniVersion":"1.1.0","name":"net","mdoe":"x"}`
			p.Validate = func(req *netconf.Request, _ *config) error { return req.Invalid("mode", "missing") }
		}, 7, `did you mean "mode"?`},
		{"Steps panics", netconf.Add, func(_ *skeltest.Call, p *skel.Plugin[config]) {
			p.Steps = func(*netconf.Request, *config) skel.Steps { panic("no steps") }
		}, 999, "no steps"},
		{"CHECK without prevResult", netconf.Check, func(*skeltest.Call, *skel.Plugin[config]) {}, 7, "prevResult"},
		{"CHECK in 0.3.1", netconf.Check, func(c *skeltest.Call, _ *skel.Plugin[config]) {
			c.Config, c.Prev = `{"cniVersion":"0.3.1","name":"net"}`, prevResult
		}, 1, "0.4.0"},
		{"STATUS in 1.0.0", netconf.Status, func(c *skeltest.Call, _ *skel.Plugin[config]) { c.Config = `{"cniVersion":"1.0.0","name":"net"}` }, 1, "1.1.0"},
		{"GC in 1.0.0", netconf.GC, func(c *skeltest.Call, _ *skel.Plugin[config]) {
			c.Config = `{"cniVersion":"1.0.0","name":"net","cni.dev/valid-attachments":[]}`
		}, 1, "1.1.0"},
		{"GC in 1.0.0 without the list", netconf.GC, func(c *skeltest.Call, _ *skel.Plugin[config]) { c.Config = `{"cniVersion":"1.0.0","name":"net"}` }, 1, "1.1.0"},
		{"GC without the list", netconf.GC, func(*skeltest.Call, *skel.Plugin[config]) {}, 7, "valid-attachments"},
		{"GC with null", netconf.GC, func(c *skeltest.Call, _ *skel.Plugin[config]) {
			c.Config = `{"cniVersion":"1.1.0","name":"net","cni.dev/valid-attachments":null}`
		}, 7, "valid-attachments"},
		{"GC with half an entry", netconf.GC, func(c *skeltest.Call, _ *skel.Plugin[config]) {
			c.Config = `{"cniVersion":"1.1.0","name":"net","cni.dev/attachments":[{"containerID":"x"}]}`
		}, 7, "attachments[0].ifname"},
		{"an unsupported version", netconf.Add, func(c *skeltest.Call, _ *skel.Plugin[config]) { c.Config = `{"cniVersion":"9.9.9","name":"net"}` }, 1, "0.4.0"},
		{"a version not announced", netconf.Add, func(_ *skeltest.Call, p *skel.Plugin[config]) { p.Versions = []string{"1.0.0"} }, 1, "supported: 1.0.0"},
		{"a chained plugin without prevResult", netconf.Add, func(_ *skeltest.Call, p *skel.Plugin[config]) { p.Kind = skel.Chained }, 7, "prevResult"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			j := &journal{}
			p := plugin(t, &step{name: "a", j: j, add: iface})
			c := call(test.verb)
			test.change(&c, &p)
			c.Run(t.Context(), t, p).Fails(t, test.code, test.msg)
			j.want(t)
		})
	}
}

// staleFile makes what a namespace's path is when its bind mount is gone.
func staleFile(dir string) string {
	path := filepath.Join(dir, "netns")
	if err := os.WriteFile(path, nil, 0o444); err != nil {
		panic(err)
	}
	return path
}

// F10: a DEL into the plugin's own namespace, as /proc/PID/ns/net names it after the process id was used again.
func TestF10DelInTheHostsNamespaceSeesNone(t *testing.T) {
	t.Parallel()
	j := &journal{}
	see := func(_ context.Context, req *netconf.Request) error { j.note("netns %q", req.Netns); return nil }
	p := plugin(t, &step{name: "a", j: j, del: see})
	c := call(netconf.Del)
	c.Env = nil
	c.Run(t.Context(), t, p).OK(t)
	j.want(t, "DEL a", `netns ""`)
	fifo := filepath.Join(t.TempDir(), "fifo") // what is no namespace at all is not handed to a delegate either
	if err := exec.Command("mkfifo", fifo).Run(); err != nil {
		t.Fatal(err)
	}
	c.Netns = fifo
	c.Run(t.Context(), t, p).OK(t)
	j.want(t, "DEL a", `netns ""`)
	call(netconf.Del).Run(t.Context(), t, p).OK(t) // CNI_NETNS_OVERRIDE
	j.want(t, "DEL a", `netns "/proc/self/ns/net"`)
}

// A pointer would be nil, or shared: the configuration would be dropped in silence.
func TestConfigurationThatIsNoStructIsRefused(t *testing.T) {
	t.Parallel()
	p := skel.Plugin[*config]{Name: "test", RunDir: t.TempDir(), Steps: func(*netconf.Request, **config) skel.Steps { return nil }}
	for _, command := range []netconf.Command{netconf.Add, netconf.Version} {
		call(command).Run(t.Context(), t, p).Fails(t, netconf.CodeInternal, "*skel_test.config", "expected a struct")
	}
}

// A call with several faults is told all of them, not one at each try.
func TestAllThatIsWrongIsToldAtOnce(t *testing.T) {
	t.Parallel()
	j := &journal{}
	p := plugin(t, &step{name: "a", j: j})
	p.Versions = []string{"1.1.0"}
	p.Validate = func(req *netconf.Request, _ *config) error { return req.Invalid("mtu", "too small") }
	c := call(netconf.Check)
	c.Config, c.Netns = `{"cniVersion":"1.0.0","name":"net","type":"test"}`, "/nowhere/at/all"
	c.Run(t.Context(), t, p).Fails(t, netconf.CodeIncompatibleVersion, `version "1.0.0" is not supported by test`, "mtu: too small", "prevResult: missing", `namespace "/nowhere/at/all"`)
	j.want(t)
	c.Command = netconf.Del
	c.Run(t.Context(), t, p).OK(t)
}

// A list of the time before lists was served, and undone when its result could not be printed.
func TestPrevResultThatCannotBePrintedIsRefusedBeforeAnyWork(t *testing.T) {
	t.Parallel()
	const v4, v6 = `{"address":"10.0.0.1/8"}`, `{"address":"fd00::1/64"}`
	for _, test := range []struct {
		version, ips string
		kind         skel.Kind
		refused      bool
	}{
		{"0.2.0", v4, skel.Interface, true}, {"0.1.0", v6, skel.Meta, true}, {"", v4, skel.Interface, true},
		{"0.2.0", v4 + "," + v6, skel.Chained, false}, {"0.2.0", v4 + "," + v6 + "," + v4, skel.Chained, true},
		{"0.2.0", v4 + "," + v4, skel.IPAM, false}, {"0.3.0", v4 + "," + v4, skel.Interface, false}, {"0.2.0", "", skel.Interface, false},
	} {
		j := &journal{}
		p := plugin(t, &step{name: "a", j: j, add: func(ctx context.Context, req *netconf.Request) error {
			switch test.kind {
			case skel.Chained:
				return nil
			case skel.IPAM:
				req.AddIP(-1, net.IPNet{IP: net.IP{10, 0, 0, 2}, Mask: net.CIDRMask(24, 32)}, nil)
				return nil
			}
			return iface(ctx, req)
		}})
		p.Kind = test.kind
		c := call(netconf.Add)
		c.Config = fmt.Sprintf(`{"cniVersion":%q,"name":"net","type":"test","prevResult":{"cniVersion":"1.0.0","ips":[%s]}}`, test.version, test.ips)
		a := c.Run(t.Context(), t, p)
		if test.refused {
			a.Fails(t, netconf.CodeInvalidNetworkConfig, "prevResult", "has room for one address of each family")
			j.want(t)
		} else {
			a.OK(t)
			j.want(t, "ADD a")
		}
	}
}

// Of a text that was cut, or not read at all, nothing is said but that: it is no wonder that it is no JSON.
func TestTextThatWasNotReadIsNotJudged(t *testing.T) {
	t.Parallel()
	env := []string{"CNI_COMMAND=ADD", "CNI_CONTAINERID=c1", "CNI_NETNS=/run/netns/c1", "CNI_IFNAME=eth0"}
	for want, stdin := range map[string]io.Reader{
		"configuration: larger than 16777216 bytes": strings.NewReader(`{"name":"net","type":"test","x":"` + strings.Repeat("x", 17<<20) + `"}`),
		"stdin: is a directory":                     reader(func([]byte) (int, error) { return 0, errors.New("is a directory") }),
		"stdin: is a directory too":                 io.MultiReader(strings.NewReader(`{"name":"n`), reader(func([]byte) (int, error) { return 0, errors.New("is a directory too") })),
	} {
		for _, env := range [][]string{env, append(slices.Clone(env), "CNI_IFNAME=")} {
			var stdout strings.Builder
			plugin(t, &step{name: "a", j: &journal{}}).Run(t.Context(), skel.IO{Env: env, Stdin: stdin, Stdout: &stdout, Stderr: io.Discard})
			if r, ok := stdin.(*strings.Reader); ok {
				r.Reset(`{"name":"net","type":"test","x":"` + strings.Repeat("x", 17<<20) + `"}`)
			}
			if said := stdout.String(); !strings.Contains(said, want) || strings.Contains(said, "not JSON") || strings.Contains(said, "empty") {
				t.Errorf("%s: %.2000s", want, said)
			}
		}
	}
}
