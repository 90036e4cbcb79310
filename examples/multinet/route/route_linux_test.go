package route_test

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/examples/multinet/route"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
)

func TestMain(m *testing.M) { skeltest.Main(m) }

// pod makes a namespace with eth0 (10.0.0.2, fd00::2), which has the default routes, and net1 (10.1.0.2, fd01::2). Behind the
// neighbour of each (.1) are 192.0.2.1 and 2001:db8::1; the two neighbours answer from different hosts.
func pod(t *testing.T) *skeltest.NS {
	t.Helper()
	p := skeltest.NewNS(t)
	for i, name := range []string{"eth0", "net1"} {
		n := skeltest.NewNS(t)
		at := string(rune('0' + i))
		n.Run("ip", "link", "add", "p0", "type", "veth", "peer", "name", name, "netns", p.Name)
		n.Run("sh", "-ec", "ip link set lo up; ip link set p0 up; ip address add 10."+at+".0.1/24 dev p0; ip address add 10."+at+".0.9/24 dev p0; "+
			"ip address add fd0"+at+"::1/64 dev p0 nodad; ip address add 192.0.2.1/32 dev lo; ip address add 2001:db8::1/128 dev lo nodad")
		p.Run("sh", "-ec", "ip link set "+name+" addrgenmode none up; ip address add 10."+at+".0.2/24 dev "+name+"; ip address add fd0"+at+"::2/64 dev "+name+" nodad")
	}
	p.Run("sh", "-ec", "ip route add default via 10.0.0.1 dev eth0; ip route add default via 10.0.0.9 dev eth0 metric 50; ip -6 route add default via fd00::1 dev eth0; "+
		"ip route add default via 10.0.0.1 dev eth0 table 100; ip route add default via 10.1.0.1 dev net1 metric 100 mtu 1300")
	return p
}

func gateways(list ...string) (out []netip.Addr) {
	for _, a := range list {
		out = append(out, netip.MustParseAddr(a))
	}
	return out
}

func show(p *skeltest.NS) string {
	return strings.Join(strings.Fields(p.Run("ip", "-4", "route", "show", "default")+" "+p.Run("ip", "-6", "route", "show", "default")), " ")
}

const (
	ofEth0 = `{"cniVersion":"1.0.0","x":9007199254740993,"ips":[{"address":"10.0.0.2/24","gateway":"10.0.0.1"},{"address":"fd00::2/64"}],` +
		`"routes":[{"dst":"0.0.0.0/0","gw":"10.0.0.1"},{"dst":"10.0.0.0/8","gw":"10.0.0.1","y":1},{"dst":"::/0","gw":"fd00::1"},{"dst":"0.0.0.0/0","gw":"10.0.0.1","table":100}]}`
	ofNet1 = `{"cniVersion":"1.0.0","ips":[{"address":"10.1.0.2/24"},{"address":"fd01::2/64"}],"routes":[{"dst":"0.0.0.0/0","gw":"10.1.0.1","mtu":1300,"priority":100}]}`
)

// TestApply: what ip shows afterwards, where packets go, what the results say, and that it can be undone.
func TestApply(t *testing.T) {
	for name, c := range map[string]struct {
		asks       []string // of net1
		shown      string
		eth0, net1 string // the results' routes
	}{
		"v4": {[]string{"10.1.0.9"}, "default via 10.1.0.9 dev net1 proto 67 default via fd00::1 dev eth0 metric 1024 pref medium",
			`[{"dst":"10.0.0.0/8","gw":"10.0.0.1","y":1},{"dst":"::/0","gw":"fd00::1"},{"dst":"0.0.0.0/0","gw":"10.0.0.1","table":100}]`,
			`[{"dst":"0.0.0.0/0","gw":"10.1.0.9"}]`},
		"the gateway that it has, and another one": {[]string{"10.1.0.1", "10.1.0.9"}, "default via 10.1.0.1 dev net1 proto 67 mtu 1300 " +
			"default via 10.1.0.9 dev net1 proto 67 metric 1 default via fd00::1 dev eth0 metric 1024 pref medium",
			`[{"dst":"10.0.0.0/8","gw":"10.0.0.1","y":1},{"dst":"::/0","gw":"fd00::1"},{"dst":"0.0.0.0/0","gw":"10.0.0.1","table":100}]`,
			`[{"dst":"0.0.0.0/0","gw":"10.1.0.1","mtu":1300},{"dst":"0.0.0.0/0","gw":"10.1.0.9","priority":1}]`},
		"v6": {[]string{"fd01::1"}, "default via 10.0.0.1 dev eth0 default via 10.0.0.9 dev eth0 metric 50 default via 10.1.0.1 dev net1 metric 100 mtu 1300 " +
			"default via fd01::1 dev net1 proto 67 metric 1024 pref medium",
			`[{"dst":"0.0.0.0/0","gw":"10.0.0.1"},{"dst":"10.0.0.0/8","gw":"10.0.0.1","y":1},{"dst":"0.0.0.0/0","gw":"10.0.0.1","table":100}]`,
			`[{"dst":"0.0.0.0/0","gw":"10.1.0.1","mtu":1300,"priority":100},{"dst":"::/0","gw":"fd01::1","priority":1024}]`},
		"both": {[]string{"fd01::1", "10.1.0.1"}, "default via 10.1.0.1 dev net1 proto 67 mtu 1300 default via fd01::1 dev net1 proto 67 metric 1024 pref medium",
			`[{"dst":"10.0.0.0/8","gw":"10.0.0.1","y":1},{"dst":"0.0.0.0/0","gw":"10.0.0.1","table":100}]`,
			`[{"dst":"0.0.0.0/0","gw":"10.1.0.1","mtu":1300},{"dst":"::/0","gw":"fd01::1","priority":1024}]`},
		"its own": {[]string{}, "default via 10.1.0.1 dev net1 metric 100 mtu 1300",
			`[{"dst":"10.0.0.0/8","gw":"10.0.0.1","y":1},{"dst":"0.0.0.0/0","gw":"10.0.0.1","table":100}]`,
			`[{"dst":"0.0.0.0/0","gw":"10.1.0.1","mtu":1300,"priority":100}]`},
	} {
		t.Run(name, func(t *testing.T) {
			p := pod(t)
			before := show(p)
			plan := route.Plan([]route.Attachment{
				{IfName: "eth0", Result: parse(t, ofEth0).Result}, {IfName: "net1", Result: parse(t, ofNet1).Result, Asked: true, Gateways: gateways(c.asks...)},
			})
			changed, err := plan.Apply(t.Context(), p.Path)
			if err != nil {
				t.Fatal(err)
			}
			if got := show(p); got != c.shown {
				t.Errorf("got  %s\nwant %s", got, c.shown)
			}
			if got := p.Run("ip", "route", "show", "table", "100"); !strings.Contains(got, "default via 10.0.0.1 dev eth0") {
				t.Errorf("the table of another purpose: %s", got)
			}
			p.Ping("192.0.2.1")
			for ifname, r := range map[string]struct{ old, want string }{"eth0": {ofEth0, c.eth0}, "net1": {ofNet1, c.net1}} {
				got, err := changed.Result(ifname, parse(t, r.old))
				if err != nil {
					t.Fatal(err)
				}
				head, _, _ := strings.Cut(r.old, `"routes":`)
				if want := head + `"routes":` + r.want + "}"; string(got.JSON) != want {
					t.Errorf("%s: got  %s\nwant %s", ifname, got.JSON, want)
				}
				if again := parse(t, string(got.JSON)); len(again.Routes) != len(got.Routes) {
					t.Errorf("%s: the value and its text differ: %v, %s", ifname, got.Routes, got.JSON)
				}
			}
			if err := changed.Undo(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := show(p); got != before {
				t.Errorf("undone: got  %s\nwant %s", got, before)
			}
		})
	}
}

func TestApplyFails(t *testing.T) {
	p := pod(t)
	before := show(p)
	for words, c := range map[string]struct {
		changes route.Changes
		code    uint
	}{
		"net7":                           {route.Changes{{IfName: "net7"}}, 7},
		"no way to the gateway 10.9.9.9": {route.Changes{{IfName: "net1", Gateways: gateways("10.1.0.1", "10.9.9.9")}}, 7},
		"no way to the gateway fd09::9":  {route.Changes{{IfName: "net1", Gateways: gateways("10.1.0.1")}, {IfName: "net1", V6: true, Gateways: gateways("fd09::9")}}, 7},
	} {
		changed, err := c.changes.Apply(t.Context(), p.Path)
		if err == nil || netconf.Code(err) != c.code || !strings.Contains(err.Error(), words) || changed != nil {
			t.Errorf("%v (code %d); expected %q", err, netconf.Code(err), words)
		}
		if got := show(p); got != before {
			t.Errorf("after %v: got  %s\nwant %s", err, got, before)
		}
	}
	if _, err := (route.Changes{{IfName: "net1"}}).Apply(t.Context(), "/nonexistent"); err == nil {
		t.Error("no namespace, no error")
	}
}

// TestApplyFaults breaks off at each change of the kernel's.
func TestApplyFaults(t *testing.T) {
	p := pod(t)
	before := show(p)
	broken := errors.New("broken off")
	plan := route.Changes{{IfName: "net1", Gateways: gateways("10.1.0.9")}, {IfName: "net1", V6: true, Gateways: gateways("fd01::1")}}
	for at := 1; ; at++ {
		calls := 0
		ctx := netconf.WithFault(t.Context(), func(context.Context, string) error {
			if calls++; calls == at {
				return broken
			}
			return nil
		})
		changed, err := plan.Apply(ctx, p.Path)
		if err == nil {
			if at < 7 {
				t.Errorf("%d changes", at-1)
			}
			if err := changed.Undo(t.Context()); err != nil {
				t.Error(err)
			}
		} else if !errors.Is(err, broken) {
			t.Fatal(err)
		}
		if got := show(p); got != before {
			t.Fatalf("broken off at %d: got  %s\nwant %s", at, got, before)
		}
		if err == nil {
			return
		}
	}
}

// TestApplyMeetsAnother: whoever adds or takes a default route meanwhile is told of, and what was done is undone.
func TestApplyMeetsAnother(t *testing.T) {
	for words, c := range map[string]struct{ at, command string }{
		`a default route out of "eth0" came`: {"route add", "ip route add default via 10.0.0.9 dev eth0 metric 77"},
		"by 10.1.0.9 went while it was made": {"route add default via 10.1.0.1", "ip route del default via 10.1.0.9"},
	} {
		t.Run(words, func(t *testing.T) {
			p := pod(t)
			before := show(p)
			ctx := netconf.WithFault(t.Context(), func(_ context.Context, op string) error {
				if strings.HasPrefix(op, c.at) {
					_, _ = p.Try("sh", "-c", c.command) // the second time it is there, or gone, already
				}
				return nil
			})
			_, err := (route.Changes{{IfName: "net1", Gateways: gateways("10.1.0.9", "10.1.0.1")}}).Apply(ctx, p.Path)
			if netconf.Code(err) != netconf.CodeTryAgainLater || !strings.Contains(err.Error(), words) {
				t.Errorf("%v (code %d)", err, netconf.Code(err))
			}
			p.Run("sh", "-c", "ip route del default metric 77 2>/dev/null || true")
			if got := show(p); got != before {
				t.Errorf("got  %s\nwant %s", got, before)
			}
		})
	}
}

// TestUndoWithoutTheNamespace: it went with the pod.
func TestUndoWithoutTheNamespace(t *testing.T) {
	p := pod(t)
	changed, err := (route.Changes{{IfName: "net1"}}).Apply(t.Context(), p.Path)
	if err != nil {
		t.Fatal(err)
	}
	p.Remove()
	if err := changed.Undo(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestOldResults: before 0.3.0 each family's routes are at its address.
func TestOldResults(t *testing.T) {
	p := pod(t)
	changed, err := (route.Changes{{IfName: "net1", Gateways: gateways("10.1.0.9")}}).Apply(t.Context(), p.Path)
	if err != nil {
		t.Fatal(err)
	}
	for ifname, c := range map[string]struct{ old, want, not string }{
		"eth0": {`{"cniVersion":"0.2.0","ip4":{"ip":"10.0.0.2/24","gateway":"10.0.0.1","routes":[{"dst":"0.0.0.0/0","gw":"10.0.0.1"},{"dst":"10.0.0.0/8"}]},"ip6":{"ip":"fd00::2/64","routes":[{"dst":"::/0"}]}}`, "10.0.0.0/8", "0.0.0.0/0"},
		"net1": {`{"cniVersion":"0.2.0","ip4":{"ip":"10.1.0.2/24","routes":[{"dst":"0.0.0.0/0","gw":"10.1.0.1"}]}}`, `"10.1.0.9"`, `"10.1.0.1"`},
	} {
		got, err := changed.Result(ifname, parse(t, c.old))
		if err != nil {
			t.Fatal(err)
		}
		text := string(got.JSON)
		if !strings.Contains(text, `"0.2.0"`) || !strings.Contains(text, c.want) || strings.Contains(text, c.not) || ifname == "eth0" && !strings.Contains(text, "::/0") {
			t.Errorf("%s: %s", ifname, text)
		}
	}
}
