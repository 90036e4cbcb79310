package link_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
)

func TestSysctlKey(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"net.core.somaxconn":             "net/core/somaxconn",
		"net/core/somaxconn":             "net/core/somaxconn",
		"net.ipv4.conf.IFNAME.rp_filter": "net/ipv4/conf/eth0.7/rp_filter",
		"net/ipv4/conf/IFNAME/rp_filter": "net/ipv4/conf/eth0.7/rp_filter",
		"net.ipv4.conf.eth1/8.rp_filter": "net/ipv4/conf/eth1.8/rp_filter",
		"net/ipv4/conf/eth1.8/rp_filter": "net/ipv4/conf/eth1.8/rp_filter",
		"net.ipv4.conf.IFNAME2.rp":       "net/ipv4/conf/IFNAME2/rp",
		"kernel.hostname":                "", "net": "", "net.core": "", "": "", ".": "", "net..core.x": "", "net/ipv4/../../kernel/hostname": "",
		"net.ipv4./.x": "", "net.ipv4.//.x": "", "/net/core/somaxconn": "", "net/core/./x": "", "net.core.a b": "", "net.core.a\n": "", "NET.core.x": "",
	} {
		key, err := link.SysctlKey(name, "eth0.7")
		if key != want || (err != nil) != (want == "") || err != nil && netconf.Code(err) != netconf.CodeInvalidNetworkConfig {
			t.Errorf("%q: %q, %v; expected %q", name, key, err, want)
		}
	}
}

// TestSysctls: they are set in the container alone, in an order in which none undoes another, and seen by CHECK.
func TestSysctls(t *testing.T) {
	parallelNS(t)
	step := link.Sysctls{Values: map[string]string{
		"net.ipv4.conf.IFNAME.forwarding": "0", "net.ipv4.ip_forward": "1", // this one sets all links'
		"net.ipv4.ip_local_port_range":    "2000 50000", // the kernel writes a tab
		"net/ipv4/conf/default/rp_filter": "0x2", "net.ipv4.conf.all.log_martians": "1",
	}}
	container, _, p, call := changer(t, step)
	other := skeltest.NewNS(t)
	read := func(ns *skeltest.NS) string {
		return strings.Join(strings.Fields(ns.Run("sysctl", "-n", "net.ipv4.conf.eth0.forwarding", "net.ipv4.ip_forward", "net.ipv4.ip_local_port_range",
			"net.ipv4.conf.default.rp_filter", "net.ipv4.conf.all.log_martians")), " ")
	}
	other.Run("ip", "link", "add", "eth0", "type", "veth", "peer", "name", "x")
	before := read(other)
	var ops []string
	a := call.Run(netconf.WithFault(t.Context(), recording(&ops)), t, p).OK(t)
	if got := read(container); got != "0 1 2000 50000 2 1" {
		t.Errorf("sysctls %q", got)
	}
	if !slices.ContainsFunc(ops, func(op string) bool { return strings.HasPrefix(op, "sysctl net/ipv4/ip_forward=1") }) {
		t.Errorf("the hook saw %q", ops)
	}
	if got := read(other); got != before {
		t.Errorf("another container's: %q", got)
	}
	check := call.With(netconf.Check).WithPrev(a)
	check.Run(t.Context(), t, p).OK(t)
	container.Run("sysctl", "-qw", "net.ipv4.ip_local_port_range=2000 50001", "net.ipv4.conf.all.log_martians=0")
	check.Run(t.Context(), t, p).Fails(t, netconf.CodeDifferent, "ip_local_port_range", "50001", "log_martians")
	for range 2 {
		call.With(netconf.Del).WithPrev(a).Run(t.Context(), t, p).OK(t)
	}
}

func TestSysctlsRefused(t *testing.T) {
	parallelNS(t)
	container, _, _, call := changer(t, everything)
	before := container.Run("sysctl", "-n", "net.ipv4.conf.eth0.log_martians")
	tests := []struct {
		name, value string
		code        uint
		words       string
	}{
		{"kernel.hostname", "x", netconf.CodeInvalidNetworkConfig, "kernel.hostname"},
		{"net.ipv4.conf.IFNAME.nosuch", "1", netconf.CodeNotSupported, "net/ipv4/conf/eth0/nosuch"},
		{"net.ipv4.conf.eth7.rp_filter", "1", netconf.CodeNotSupported, "eth7"},
		{"net.ipv4.conf.IFNAME.rp_filter", "many", netconf.CodeInvalidNetworkConfig, "rp_filter"},
		{"net.ipv4.conf.IFNAME.rp_filter", "", netconf.CodeInvalidNetworkConfig, `value ""`},
		{"net.ipv4.conf.IFNAME.rp_filter", "1\n2", netconf.CodeInvalidNetworkConfig, "one line"},
		{"net.ipv4.conf.eth0.log_martians", "0", netconf.CodeInvalidNetworkConfig, "given twice"},
	}
	for _, test := range tests {
		p := plugin(link.Sysctls{Values: map[string]string{"net.ipv4.conf.IFNAME.log_martians": "1", test.name: test.value}})
		call.Run(t.Context(), t, p).Fails(t, test.code, test.words)
		if got := container.Run("sysctl", "-n", "net.ipv4.conf.eth0.log_martians"); got != before {
			t.Errorf("%q: the other is %q", test.name, got)
		}
	}
}

// TestSysctlsOfTheContainerStay: another attachment of the container may have asked for the same.
func TestSysctlsOfTheContainerStay(t *testing.T) {
	parallelNS(t)
	container, _, p, call := changer(t, link.Sysctls{Values: map[string]string{"net.ipv4.conf.all.rp_filter": "2", "net.ipv4.conf.IFNAME.rp_filter": "1"}})
	container.Run("sysctl", "-qw", "net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.eth0.rp_filter=0")
	a := call.Run(t.Context(), t, p).OK(t)
	call.Run(t.Context(), t, p).Fails(t, netconf.CodeExists, "eth0")
	call.With(netconf.Del).WithPrev(a).Run(t.Context(), t, p).OK(t)
	if got := strings.Fields(container.Run("sysctl", "-n", "net.ipv4.conf.all.rp_filter", "net.ipv4.conf.eth0.rp_filter")); !slices.Equal(got, []string{"2", "0"}) {
		t.Errorf("rp_filter of all and of eth0: %q", got)
	}
}

// TestSysctlsRolledBack: the write of the second fails.
func TestSysctlsRolledBack(t *testing.T) {
	parallelNS(t)
	container, _, p, call := changer(t, link.Sysctls{Values: map[string]string{"net.ipv4.conf.IFNAME.rp_filter": "1", "net.ipv4.conf.IFNAME.log_martians": "1"}})
	container.Run("sysctl", "-qw", "net.ipv4.conf.eth0.rp_filter=0", "net.ipv4.conf.eth0.log_martians=0")
	ctx := netconf.WithFault(t.Context(), func(_ context.Context, op string) error {
		if strings.HasSuffix(op, "rp_filter=1") {
			return errors.New("injected")
		}
		return nil
	})
	if a := call.Run(ctx, t, p); a.Exit == 0 {
		t.Fatal("ADD succeeded")
	}
	if got := strings.Fields(container.Run("sysctl", "-n", "net.ipv4.conf.eth0.log_martians", "net.ipv4.conf.eth0.rp_filter")); !slices.Equal(got, []string{"0", "0"}) {
		t.Errorf("log_martians and rp_filter: %q", got)
	}
}

// TestSysctlsThatTheKernelRounds: to the ticks of its clock, 4 ms where it has 250 in a second. CHECK failed for ever.
func TestSysctlsThatTheKernelRounds(t *testing.T) {
	parallelNS(t)
	const key = "net.ipv4.neigh.eth0.retrans_time_ms"
	container, _, p, call := changer(t, link.Sysctls{Values: map[string]string{"net.ipv4.neigh.IFNAME.retrans_time_ms": "1001"}})
	before := container.Run("sysctl", "-n", key)
	a := call.Run(t.Context(), t, p).OK(t)
	if got := strings.TrimSpace(container.Run("sysctl", "-n", key)); got == "1001" {
		t.Log("this kernel has a clock that does not round it")
	}
	check := call.With(netconf.Check).WithPrev(a)
	check.Run(t.Context(), t, p).OK(t)
	container.Run("sysctl", "-qw", key+"=900")
	check.Run(t.Context(), t, p).Fails(t, netconf.CodeDifferent, "retrans_time_ms")
	call.With(netconf.Del).Run(t.Context(), t, p).OK(t)
	if got := container.Run("sysctl", "-n", key); got != before {
		t.Errorf("after DEL: %s, before %s", got, before)
	}
}

// TestSysctlsThatCanBeWrittenAlone: net.ipv4.route.flush has no value to be read.
func TestSysctlsThatCanBeWrittenAlone(t *testing.T) {
	parallelNS(t)
	_, _, p, call := changer(t, link.Sysctls{Values: map[string]string{"net.ipv4.route.flush": "1"}})
	var ops []string
	a := call.Run(netconf.WithFault(t.Context(), recording(&ops)), t, p).OK(t)
	if !slices.Contains(ops, "sysctl net/ipv4/route/flush=1") {
		t.Errorf("the hook saw %q", ops)
	}
	call.With(netconf.Check).WithPrev(a).Run(t.Context(), t, p).OK(t)
	call.With(netconf.Del).Run(t.Context(), t, p).OK(t)
}
