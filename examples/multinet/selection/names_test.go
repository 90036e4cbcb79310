package selection_test

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/examples/multinet/selection"
	"github.com/cnikit/cnikit/netconf"
)

func TestNames(t *testing.T) {
	t.Parallel()
	for wanted, want := range map[string]string{
		"-":            "eth0",
		"- - -":        "eth0 net1 net2",
		"- foo0 -":     "eth0 foo0 net2",
		"- net2 -":     "eth0 net2 net3", // the place's own name is taken
		"- - net2 -":   "eth0 net1 net2 net3",
		"- - - net1":   "eth0 net2 net3 net1", // what is asked for goes first
		"- net3 - -":   "eth0 net3 net2 net4",
		"- x0 x1 - x2": "eth0 x0 x1 net3 x2",
		"net7 -":       "eth0 net1", // the first one is CNI_IFNAME whatever it asks for
	} {
		in := strings.Fields(strings.ReplaceAll(" "+wanted, " -", " \x00"))
		for i := range in {
			in[i] = strings.Trim(in[i], "\x00")
		}
		names, err := selection.Names("eth0", in)
		if err != nil || strings.Join(names, " ") != want {
			t.Errorf("%q: %q, %v: expected %q", wanted, names, err, want)
		}
	}
	names, err := selection.Names("net1", []string{"", ""})
	if err != nil || !slices.Equal(names, []string{"net1", "net2"}) {
		t.Errorf("%q, %v", names, err)
	}
}

func TestNamesTaken(t *testing.T) {
	t.Parallel()
	for _, wanted := range [][]string{{"", "x1", "x1"}, {"", "eth0"}, {"", "lo"}, {"", "", "net5", "net5"}} {
		names, err := selection.Names("eth0", wanted)
		if netconf.Code(err) != netconf.CodeInvalidNetworkConfig || names != nil {
			t.Errorf("%q: %q, %v", wanted, names, err)
		}
	}
}

// The names are as many as attachments, each once, and those that were asked for.
func FuzzNames(f *testing.F) {
	f.Add("eth0", "net2,,net1,,x")
	f.Fuzz(func(t *testing.T, ifname, wanted string) {
		in := strings.Split(wanted, ",")
		if ifname == "" || len(in) > 100 {
			return
		}
		names, err := selection.Names(ifname, in)
		if err != nil {
			return
		}
		have := map[string]bool{}
		for i, name := range names {
			if name == "" || have[name] || i > 0 && in[i] != "" && in[i] != name {
				t.Fatalf("%q of %q", names, in)
			}
			have[name] = true
		}
		if len(names) != len(in) || names[0] != ifname {
			t.Fatalf("%q of %q", names, in)
		}
	})
}

func TestFence(t *testing.T) {
	t.Parallel()
	on := selection.Fence{On: true, Global: []string{"default", "tenants"}}
	for _, c := range []struct {
		fence     selection.Fence
		namespace string
		also      []string
		ok        bool
	}{
		{selection.Fence{}, "ns2", nil, true},
		{on, "ns1", nil, true},
		{on, "default", nil, true},
		{on, "tenants", nil, true},
		{on, "ns2", nil, false},
		{on, "kube-system", nil, false},
		{on, "kube-system", []string{"kube-system"}, true},
	} {
		err := c.fence.Check("ns1", selection.Element{Namespace: c.namespace, Name: "a"}, c.also...)
		if (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
		if err != nil && (netconf.Code(err) != netconf.CodeInvalidNetworkConfig || !strings.Contains(err.Error(), c.namespace) || !strings.Contains(err.Error(), `"ns1"`)) {
			t.Errorf("%v: expected code 7 and both namespaces", err)
		}
	}
}

func TestRoutes(t *testing.T) {
	t.Parallel()
	v4, other4, v6 := netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("10.0.0.2"), netip.MustParseAddr("fd00::1")
	for _, c := range []struct {
		gateways [][]netip.Addr
		ok       bool
	}{
		{nil, true},
		{[][]netip.Addr{nil, nil}, true},
		{[][]netip.Addr{{v4, other4, v6}, nil}, true},
		{[][]netip.Addr{{v4}, {v6}}, true},
		{[][]netip.Addr{{}, nil}, true},
		{[][]netip.Addr{{v4}, {other4}}, false},
		{[][]netip.Addr{{v4, v6}, nil, {v6}}, false},
		{[][]netip.Addr{{}, {}}, false},
		{[][]netip.Addr{{}, {v6}}, false},
	} {
		var elements []selection.Element
		for i, g := range c.gateways {
			elements = append(elements, selection.Element{Namespace: "ns1", Name: string(rune('a' + i)), Gateways: g})
		}
		err := selection.Routes(elements)
		if (err == nil) != c.ok || err != nil && netconf.Code(err) != netconf.CodeInvalidNetworkConfig {
			t.Errorf("%v: %v", c.gateways, err)
		}
	}
}
