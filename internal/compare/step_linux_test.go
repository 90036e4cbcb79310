package compare

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/internal/testbin"
	"github.com/cnikit/cnikit/ipam"
	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
	"github.com/cnikit/cnikit/skel/skeltest"
)

func TestMain(m *testing.M) { skeltest.Main(m) }

const (
	tuning   = "github.com/containernetworking/plugins/plugins/meta/tuning"
	tunedMAC = "02:00:00:00:00:42"
)

type config struct{}

// tuned is a plugin that makes a macvlan with addresses, then has the reference plugin tuning change it, then runs a
// step of its own.
func tuned(dataDir string, own error) skel.Plugin[config] {
	conf := fmt.Sprintf(`{"type":"tuning","mac":%q,"sysctl":{"net.ipv4.conf.IFNAME.arp_filter":"1"},"dataDir":%q}`, tunedMAC, dataDir)
	return skel.Plugin[config]{Name: "tuned", Steps: func(req *netconf.Request, _ *config) skel.Steps {
		return skel.Steps{
			link.Macvlan{Parent: link.Parent{Name: "uplink"}}, ipam.FromConfig(req), link.Addresses{},
			delegate.Step{Config: json.RawMessage(conf)},
			mine{own},
		}
	}}
}

// mine is a step that makes nothing.
type mine struct{ err error }

func (m mine) Add(context.Context, *netconf.Request) error { return m.err }
func (mine) Check(context.Context, *netconf.Request) error { return nil }
func (mine) Del(context.Context, *netconf.Request) error   { return nil }

// setup is a parent link, a container, and what the plugin's call needs; left lists what must not be left behind.
func setup(t *testing.T) (ns *skeltest.NS, c skeltest.Call, dataDir string, left func() []string) {
	t.Helper()
	skeltest.NeedRoot(t)
	ns, pool := skeltest.NewNS(t), skeltest.NewIPAM(t)
	skeltest.Host(t, "ip", "link", "add", "uplink", "type", "veth", "peer", "name", "wire")
	t.Cleanup(func() { skeltest.Host(t, "ip", "link", "del", "uplink") })
	skeltest.Host(t, "ip", "link", "set", "uplink", "up")
	skeltest.Host(t, "ip", "link", "set", "wire", "up")
	c = skeltest.Call{Command: netconf.Add, ContainerID: ns.Name, Netns: ns.Path, IfName: "eth0",
		Path:   pool.Path + ":" + testbin.Tools(t, "internal/compare", nil, tuning),
		Config: `{"cniVersion":"1.0.0","name":"net","type":"tuned","ipam":{"type":"test-ipam"}}`}
	dataDir = t.TempDir()
	return ns, c, dataDir, func() []string {
		files, err := filepath.Glob(filepath.Join(dataDir, "*"))
		if err != nil {
			t.Error(err)
		}
		return append(files, pool.Reserved()...)
	}
}

// The delegate works on what the steps before it made, its answer is the result, and CHECK and DEL reach it.
func TestStepWithTheReferencePlugin(t *testing.T) {
	ns, c, dataDir, left := setup(t)
	p, before := tuned(dataDir, nil), ns.Snapshot()
	added := c.Run(t.Context(), t, p).OK(t)
	if at := netconf.Attached(added.Result, "eth0"); at < 0 || added.Result.Interfaces[at].Mac != tunedMAC || len(added.Result.Interfaces) != 1 ||
		len(added.Result.IPs) == 0 || added.Result.IPs[0].Interface == nil {
		t.Errorf("the result: %s", added.Stdout)
	}
	if state := ns.Run("ip", "link", "show", "eth0"); !strings.Contains(state, tunedMAC) {
		t.Errorf("the kernel: %s", state)
	}
	if value := ns.Run("cat", "/proc/sys/net/ipv4/conf/eth0/arp_filter"); value != "1\n" {
		t.Errorf("the kernel: arp_filter %s", value)
	}
	check := c.With(netconf.Check).WithPrev(added)
	check.Run(t.Context(), t, p).OK(t)
	ns.Run("sysctl", "-q", "-w", "net.ipv4.conf.eth0.arp_filter=0")
	check.Run(t.Context(), t, p).Fails(t, 999, `tuning: delegate "tuning" CHECK, network "net"`, "arp_filter")
	c.With(netconf.Del).WithPrev(added).Run(t.Context(), t, p).OK(t)
	c.With(netconf.Del).WithPrev(added).Run(t.Context(), t, p).OK(t)
	if diff := before.Diff(ns.Snapshot()); diff != "" || len(left()) > 0 {
		t.Errorf("left behind: %s%v", diff, left())
	}
}

// DEL without a prevResult, without a namespace: the delegate is called all the same.
func TestStepDelKnowsLittle(t *testing.T) {
	for name, alter := range map[string]func(*skeltest.Call){
		"no prevResult": func(*skeltest.Call) {},
		"no namespace":  func(c *skeltest.Call) { c.Netns = "" },
	} {
		t.Run(name, func(t *testing.T) {
			ns, c, dataDir, _ := setup(t)
			p, before := tuned(dataDir, nil), ns.Snapshot()
			c.Run(t.Context(), t, p).OK(t)
			var ran []string
			ctx := netconf.WithFault(t.Context(), func(_ context.Context, op string) error {
				if strings.HasPrefix(op, "exec ") {
					ran = append(ran, op)
				}
				return nil
			})
			del := c.With(netconf.Del)
			alter(&del)
			del.Run(ctx, t, p).OK(t)
			if got := strings.Join(ran, ", "); got != "exec tuning DEL, exec test-ipam DEL" {
				t.Errorf("ran %s", got)
			}
			if diff := before.Diff(ns.Snapshot()); diff != "" && name == "no prevResult" {
				t.Errorf("left behind: %s", diff)
			}
		})
	}
}

// A step after the delegate fails: the delegate's DEL puts back what it had changed, and the rest goes too.
func TestStepIsRolledBack(t *testing.T) {
	ns, c, dataDir, left := setup(t)
	before := ns.Snapshot()
	saved := 0
	ctx := netconf.WithFault(t.Context(), func(_ context.Context, op string) error {
		if op == "exec tuning DEL" { // what it put aside at ADD is there, and must be gone afterwards
			files, err := filepath.Glob(filepath.Join(dataDir, "*"))
			if err != nil {
				return err
			}
			saved = len(files)
		}
		return nil
	})
	c.Run(ctx, t, tuned(dataDir, errors.New("no room"))).Fails(t, 999, "no room")
	if diff := before.Diff(ns.Snapshot()); diff != "" || len(left()) > 0 || saved != 1 {
		t.Errorf("left behind: %s%v; %d files before the DEL", diff, left(), saved)
	}
}

// The call is broken at each of its operations in turn, the delegate's start among them.
func TestStepBrokenAnywhere(t *testing.T) {
	ns, c, dataDir, left := setup(t)
	// When the DEL of tuning is what is broken, the link is gone at the next one, and tuning leaves its file then.
	addresses := func() []string {
		return slices.DeleteFunc(left(), func(what string) bool { return strings.HasPrefix(what, dataDir) })
	}
	if n := skeltest.Walk(t, tuned(dataDir, nil), c, ns, addresses); n < 7 {
		t.Errorf("an ADD of %d operations", n)
	}
}

// The delegate's program is away at DEL: all else is done, the error says so, and the next DEL finishes.
func TestStepWithoutItsProgramAtDel(t *testing.T) {
	ns, c, dataDir, left := setup(t)
	p := tuned(dataDir, nil)
	added := c.Run(t.Context(), t, p).OK(t)
	away := c.With(netconf.Del).WithPrev(added)
	away.Path, _, _ = strings.Cut(c.Path, ":")
	away.Run(t.Context(), t, p).Fails(t, netconf.CodeIOFailure, `"tuning"`, "CNI_PATH", away.Path)
	if out, err := ns.Try("ip", "link", "show", "eth0"); err == nil {
		t.Errorf("the link is still there: %s", out)
	}
	if files := left(); len(files) != 1 || !strings.HasPrefix(files[0], dataDir) {
		t.Errorf("left behind: %v: expected what tuning keeps, and no address", files)
	}
	c.With(netconf.Del).WithPrev(added).Run(t.Context(), t, p).OK(t)
	if _, err := os.Stat(dataDir); err != nil {
		t.Error(err)
	}
}
