//go:build linux

// Package plugins_test holds the example plugins, as programs and with the reference host-local,
// against the faults that hand-written plugins have: each test is named after one.
package plugins_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/cnikit/cnikit/internal/testbin"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
)

func TestMain(m *testing.M) { skeltest.Main(m) }

// subject is a plugin under test with its keys, and what it makes on the host.
type subject struct {
	name, keys string
	program    skeltest.Binary
	path       string
}

// each runs a test with each of the plugins; the host then has a parent link "uplink".
func each(t *testing.T, test func(t *testing.T, s subject)) {
	skeltest.NeedRoot(t)
	for _, s := range []subject{
		{name: "macvlan", keys: `"master":"uplink"`},
		{name: "ipvlan", keys: `"master":"uplink"`},
		{name: "bridge", keys: `"bridge":"br0","isGateway":true`},
		{name: "ptp", keys: `"mtu":1400`},
		{name: "tap", keys: `"mtu":1400,"owner":107`},
		{name: "dummy", keys: `"mtu":1400`},
	} {
		t.Run(s.name, func(t *testing.T) {
			s.program = skeltest.Binary(testbin.Plugin(t, s.name))
			s.path = testbin.Reference(t, testbin.HostLocal)
			skeltest.Host(t, "ip", "link", "add", "uplink", "type", "veth", "peer", "name", "wire")
			// Without link-local addresses, which come by themselves in their own time, after a snapshot.
			skeltest.Host(t, "ip", "link", "set", "uplink", "addrgenmode", "none", "up")
			skeltest.Host(t, "ip", "link", "set", "wire", "addrgenmode", "none", "up")
			t.Cleanup(func() {
				for _, link := range []string{"uplink", "br0"} {
					if exec.Command("ip", "link", "show", link).Run() == nil {
						skeltest.Host(t, "ip", "link", "del", link)
					}
				}
			})
			s.needed(t)
			test(t, s)
		})
	}
}

// needed skips the test on a kernel that lacks the kind of link: a call is tried, and code 103 alone says so.
func (s subject) needed(t *testing.T) {
	t.Helper()
	c := s.call(skeltest.NewNS(t), "try", hostLocal)
	if a := c.Run(t.Context(), t, s.program); a.Exit != 0 && a.Err.Code == netconf.CodeNotSupported {
		t.Skip(a.Err.Msg)
	}
	c.With(netconf.Del).Run(t.Context(), t, s.program).OK(t)
}

const hostLocal = `{"type":"host-local","ranges":[[{"subnet":"10.1.0.0/24"}],[{"subnet":"fd00:1::/64"}]]}`

// call is an ADD of a container in a namespace, with an ipam section.
func (s subject) call(ns *skeltest.NS, id, ipam string) skeltest.Call {
	return skeltest.Call{
		Command: netconf.Add, ContainerID: id, Netns: ns.Path, IfName: "eth0", Path: s.path,
		Env:    []string{"PATH=" + os.Getenv("PATH")},
		Config: fmt.Sprintf(`{"cniVersion":"1.1.0","name":%q,"type":%q,%s,"ipam":%s}`, s.network(), s.name, s.keys, ipam),
	}
}

func (s subject) network() string { return "net-" + s.name }

// reserved lists the addresses that host-local has given.
func (s subject) reserved(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("/var/lib/cni/networks/" + s.network() + "/[0-9a-f]*[.:]*")
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// look is everything that an attachment could leave.
func (s subject) look(t *testing.T, namespaces ...*skeltest.NS) skeltest.Snapshot {
	t.Helper()
	all := append(skeltest.HostSnapshot(t), s.reserved(t)...)
	for _, ns := range namespaces {
		all = append(all, ns.Snapshot()...)
	}
	run, err := filepath.Glob("/run/cnikit/*")
	if err != nil {
		t.Fatal(err)
	}
	return append(all, run...)
}

// settle makes what a network's first attachment leaves on the host for all (a bridge, forwarding).
func (s subject) settle(t *testing.T, ns *skeltest.NS) {
	t.Helper()
	c := s.call(ns, "first", hostLocal)
	c.Run(t.Context(), t, s.program).OK(t)
	c.With(netconf.Del).Run(t.Context(), t, s.program).OK(t)
}

func same(t *testing.T, before, now skeltest.Snapshot) {
	t.Helper()
	if diff := before.Diff(now); diff != "" {
		t.Errorf("not as before:\n%s", diff)
	}
}

// F1: a link left in the container when IPAM fails, so that every retry fails with "file exists".
func TestF1RetryAfterIPAMFailedWorks(t *testing.T) {
	each(t, func(t *testing.T, s subject) {
		ns, ipam := skeltest.NewNS(t), skeltest.NewIPAM(t)
		s.settle(t, ns)
		before := s.look(t, ns)
		bad := s.call(ns, "c1", `{"type":"test-ipam"}`)
		bad.Path = ipam.Path
		ipam.Fail("ADD")
		bad.Run(t.Context(), t, s.program).Fails(t, 101, "test-ipam", "fails as the test wants")
		if len(ipam.Reserved()) > 0 {
			t.Errorf("IPAM keeps %v", ipam.Reserved())
		}
		same(t, before, s.look(t, ns))
		ipam.Heal()
		ipam.Answer(`{"cniVersion":"1.0.0","ips":[{"address":"10.1.0.@N@/24","gateway":"fd00::1"}]}`) // nonsense
		bad.Run(t.Context(), t, s.program).Fails(t, netconf.CodeBadDelegate, "fd00::1")
		if len(ipam.Reserved()) > 0 {
			t.Errorf("IPAM keeps %v for an answer that was refused", ipam.Reserved())
		}
		same(t, before, s.look(t, ns))
		ipam.Answer(`{"cniVersion":"1.0.0","ips":[{"address":"10.1.0.@N@/24","gateway":"10.1.0.1"}]}`)
		bad.Run(t.Context(), t, s.program).OK(t)
		bad.With(netconf.Del).Run(t.Context(), t, s.program).OK(t)
		same(t, before, s.look(t, ns))
	})
}

// F4: a DEL that fails for ever because the netns file is stale, the parent is gone or the prevResult is
// missing. F5: an address never freed because DEL looked the parent up first.
func TestF4F5DelWhateverIsGone(t *testing.T) {
	gone := map[string]func(t *testing.T, ns *skeltest.NS, c *skeltest.Call){
		"the netns path is empty": func(_ *testing.T, _ *skeltest.NS, c *skeltest.Call) { c.Netns = "" },
		"the netns is gone":       func(_ *testing.T, ns *skeltest.NS, _ *skeltest.Call) { ns.Remove() },
		"the netns file is stale": func(t *testing.T, ns *skeltest.NS, _ *skeltest.Call) {
			ns.Remove()
			if err := os.WriteFile(ns.Path, nil, 0o444); err != nil {
				t.Fatal(err)
			}
		},
		"the parent is gone": func(t *testing.T, _ *skeltest.NS, _ *skeltest.Call) { skeltest.Host(t, "ip", "link", "del", "uplink") },
		"the link is gone":   func(_ *testing.T, ns *skeltest.NS, _ *skeltest.Call) { ns.Run("ip", "link", "del", "eth0") },
		"the configuration makes no sense any more": func(_ *testing.T, _ *skeltest.NS, c *skeltest.Call) {
			c.Config = strings.Replace(c.Config, `"type"`, `"master":7,"bridge":[],"mtu":"x","type"`, 1)
		},
		"the version is none any more": func(_ *testing.T, _ *skeltest.NS, c *skeltest.Call) {
			c.Config = strings.Replace(c.Config, `"1.1.0"`, `"9.9.9"`, 1)
		},
		"CNI_ARGS has a value that IPAM refuses": func(_ *testing.T, _ *skeltest.NS, c *skeltest.Call) { c.Args = "IgnoreUnknown=1;IP=zz" },
		"CNI_NETNS is a FIFO": func(t *testing.T, ns *skeltest.NS, c *skeltest.Call) {
			ns.Remove()
			if err := syscall.Mkfifo(ns.Path, 0o600); err != nil {
				t.Fatal(err)
			}
		},
		"CNI_ARGS is garbage": func(_ *testing.T, _ *skeltest.NS, c *skeltest.Call) { c.Args = "X" },
	}
	each(t, func(t *testing.T, s subject) {
		for what, happens := range gone {
			t.Run(what, func(t *testing.T) {
				ns := skeltest.NewNS(t)
				s.settle(t, ns)
				if what == "the parent is gone" {
					defer skeltest.Host(t, "ip", "link", "add", "uplink", "type", "veth", "peer", "name", "wire")
				}
				before := s.look(t)
				c := s.call(ns, "c1", hostLocal)
				c.Run(t.Context(), t, s.program).OK(t)
				c = c.With(netconf.Del)
				happens(t, ns, &c)
				for range 2 { // again, as runtimes do
					c.Run(t.Context(), t, s.program).OK(t)
				}
				if r := s.reserved(t); len(r) > 0 {
					t.Errorf("addresses that are not free: %v", r)
				}
				ns.Remove() // what is left in it goes with it
				skeltest.Eventually(t, "the host is as before", func() bool {
					return before.Diff(s.look(t)) == "" || what == "the parent is gone"
				})
			})
		}
	})
}

// F4: a DEL that fails for ever after an ADD that was refused before any work.
func TestF4DelAfterAnAddThatWasRefused(t *testing.T) {
	each(t, func(t *testing.T, s subject) {
		for name, change := range map[string]func(c *skeltest.Call){
			"a network's name that is none": func(c *skeltest.Call) { c.Config = strings.Replace(c.Config, s.network(), "my net", 1) },
			"no name":                       func(c *skeltest.Call) { c.Config = strings.Replace(c.Config, `"name"`, `"nome"`, 1) },
			"an unknown version":            func(c *skeltest.Call) { c.Config = strings.Replace(c.Config, "1.1.0", "9.9.9", 1) },
			"a bad argument":                func(c *skeltest.Call) { c.Args = "IgnoreUnknown=1;IP=zz" },
			"an IPAM plugin that is itself": func(c *skeltest.Call) { c.Config = strings.Replace(c.Config, `"host-local"`, `"`+s.name+`"`, 1) },
			"an IPAM plugin with a path":    func(c *skeltest.Call) { c.Config = strings.Replace(c.Config, `"host-local"`, `"../host-local"`, 1) },
		} {
			t.Run(name, func(t *testing.T) {
				ns := skeltest.NewNS(t)
				c := s.call(ns, "c1", hostLocal)
				change(&c)
				c.Path += ":" + filepath.Dir(string(s.program))
				if a := c.Run(t.Context(), t, s.program); a.Exit == 0 {
					t.Fatalf("ADD succeeded: %s", a.Stdout)
				}
				c.With(netconf.Del).Run(t.Context(), t, s.program).OK(t)
			})
		}
	})
}

// F7: STATUS says ready although no address is left. What IPAM says is what we say.
func TestF7StatusAsksIPAM(t *testing.T) {
	each(t, func(t *testing.T, s subject) {
		ns, ipam := skeltest.NewNS(t), skeltest.NewIPAM(t)
		c := s.call(ns, "c1", `{"type":"test-ipam"}`).With(netconf.Status)
		c.Path = ipam.Path
		c.Run(t.Context(), t, s.program).OK(t)
		ipam.Fail("STATUS")
		c.Run(t.Context(), t, s.program).Fails(t, 101, "test-ipam")
	})
}

// F8: a typo in a configuration key that nobody mentions.
func TestF8TypoIsMentioned(t *testing.T) {
	each(t, func(t *testing.T, s subject) {
		ns := skeltest.NewNS(t)
		s.settle(t, ns)
		c := s.call(ns, "c1", hostLocal)
		c.Config = strings.Replace(c.Config, `"name"`, `"mttu":1400,"name"`, 1)
		a := c.Run(t.Context(), t, s.program).OK(t)
		if !strings.Contains(a.Stderr, `unknown key \"mttu\" is ignored; did you mean \"mtu\"?`) || !strings.Contains(a.Stderr, "column 23") {
			t.Errorf("stderr: %s", a.Stderr)
		}
		// In an error it is in the details, which a runtime shows.
		c.Run(t.Context(), t, s.program).Fails(t, netconf.CodeExists, "eth0", `did you mean "mtu"?`)
		c.With(netconf.Del).Run(t.Context(), t, s.program).OK(t)
	})
}

// F9: a second ADD, or a failed one, that destroys what lives.
func TestF9SecondAddDestroysNothing(t *testing.T) {
	each(t, func(t *testing.T, s subject) {
		ns, other := skeltest.NewNS(t), skeltest.NewNS(t)
		s.settle(t, ns)
		before := s.look(t, ns, other)
		c := s.call(ns, "c1", hostLocal)
		added := c.Run(t.Context(), t, s.program).OK(t)
		alive := s.look(t, ns, other)
		c.Run(t.Context(), t, s.program).Fails(t, netconf.CodeExists, "eth0")
		same(t, alive, s.look(t, ns, other))
		another := s.call(ns, "c2", hostLocal) // another container's ADD into the same namespace, under a taken name
		another.Run(t.Context(), t, s.program).Fails(t, netconf.CodeExists, "eth0")
		same(t, alive, s.look(t, ns, other))
		another.With(netconf.Del).Run(t.Context(), t, s.program).OK(t)
		same(t, alive, s.look(t, ns, other))
		c.With(netconf.Check).WithPrev(added).Run(t.Context(), t, s.program).OK(t)
		c.With(netconf.Del).Run(t.Context(), t, s.program).OK(t)
		same(t, before, s.look(t, ns, other))

		other.Run("ip", "link", "add", "eth0", "type", "veth", "peer", "name", "far") // somebody else's
		foreign := s.look(t, ns, other)
		c = s.call(other, "c3", hostLocal)
		c.Run(t.Context(), t, s.program).Fails(t, netconf.CodeExists, "eth0")
		same(t, foreign, s.look(t, ns, other))
		for range 2 { // as a runtime must after a failed ADD
			c.With(netconf.Del).Run(t.Context(), t, s.program).OK(t)
			same(t, foreign, s.look(t, ns, other))
		}
	})
}

// F10: DEL in the host's own namespace takes the host's link down.
func TestF10DelInTheHostsNamespaceTouchesNoLink(t *testing.T) {
	each(t, func(t *testing.T, s subject) {
		ns := skeltest.NewNS(t)
		s.settle(t, ns)
		skeltest.Host(t, "ip", "link", "add", "eth0", "type", "veth", "peer", "name", "far")
		defer skeltest.Host(t, "ip", "link", "del", "eth0")
		before := s.look(t)
		for _, name := range []string{"eth0", "uplink", "lo"} {
			c := s.call(ns, "c1", hostLocal)
			c.IfName, c.Netns = name, fmt.Sprintf("/proc/%d/ns/net", os.Getpid())
			c.Run(t.Context(), t, s.program).Fails(t, netconf.CodeInvalidEnvironment, "CNI_NETNS")
			c.With(netconf.Del).Run(t.Context(), t, s.program).OK(t)
		}
		same(t, before, s.look(t))
	})
}

// F11: a killed plugin whose orphaned delegate takes an address that nobody releases.
func TestF11KilledPluginTakesItsDelegateAlong(t *testing.T) {
	each(t, func(t *testing.T, s subject) {
		for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGTERM} {
			ns, ipam := skeltest.NewNS(t), skeltest.NewIPAM(t)
			s.settle(t, ns)
			before := s.look(t, ns)
			c := s.call(ns, "c1", `{"type":"test-ipam"}`)
			c.Path = ipam.Path
			ipam.Hang("ADD")
			var stdout bytes.Buffer
			cmd := exec.Command(string(s.program))
			cmd.Env = append(c.Env, "CNI_COMMAND=ADD", "CNI_CONTAINERID=c1", "CNI_NETNS="+ns.Path, "CNI_IFNAME=eth0", "CNI_PATH="+ipam.Path)
			cmd.Stdin, cmd.Stdout = strings.NewReader(c.Config), &stdout
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			pid := ipam.Hanging()
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			if err := cmd.Wait(); err == nil {
				t.Fatalf("%v: ADD succeeded: %s", sig, &stdout)
			}
			skeltest.Eventually(t, fmt.Sprintf("%v: the delegate, process %d, is gone", sig, pid), func() bool {
				return syscall.Kill(pid, 0) == syscall.ESRCH
			})
			if sig == syscall.SIGTERM {
				if !strings.Contains(stdout.String(), `"code": 11`) {
					t.Errorf("%v: stdout %s", sig, &stdout)
				}
				same(t, before, s.look(t, ns)) // rolled back by itself
			}
			ipam.Heal()
			c.With(netconf.Del).Run(t.Context(), t, s.program).OK(t)
			same(t, before, s.look(t, ns))
			if r := ipam.Reserved(); len(r) > 0 {
				t.Errorf("%v: addresses that are not free: %v", sig, r)
			}
		}
	})
}

// Fifty containers at once: each gets its own address, and nothing is left when they are gone. An emulated machine
// starts a process a second, all of them included: ten there.
func TestFiftyAtOnce(t *testing.T) {
	n := 50
	if testbin.Guest() {
		n = 10
	}
	each(t, func(t *testing.T, s subject) {
		ns := make([]*skeltest.NS, n)
		for i := range ns {
			ns[i] = skeltest.NewNS(t)
		}
		s.settle(t, ns[0])
		before := s.look(t, ns...)
		addresses := make([]string, n)
		all := func(command netconf.Command) {
			var wg sync.WaitGroup
			for i := range ns {
				wg.Go(func() {
					a := s.call(ns[i], fmt.Sprint("c", i), hostLocal).With(command).Run(t.Context(), t, s.program)
					if a.Exit != 0 {
						t.Errorf("%s %d: %s", command, i, a.Err.Msg)
					} else if command == netconf.Add {
						addresses[i] = a.Result.IPs[0].Address.String()
					}
				})
			}
			wg.Wait()
		}
		all(netconf.Add)
		slices.Sort(addresses)
		if len(slices.Compact(addresses)) != n {
			t.Errorf("addresses given twice: %v", addresses)
		}
		all(netconf.Del)
		same(t, before, s.look(t, ns...))
	})
}
