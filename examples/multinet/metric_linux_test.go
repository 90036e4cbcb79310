package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// routedNetworks makes the definitions lan-0, the default network, to lan-4: macvlans with default routes of IPv4, and the
// last two of IPv6, and br, a bridge with one.
func routedNetworks(t *testing.T) *world {
	t.Helper()
	w := newQuietWorld(t) // not parallel: it makes links on the host
	skeltest.Host(t, "ip", "link", "add", "s0", "type", "veth", "peer", "name", "s1")
	t.Cleanup(func() { skeltest.Host(t, "ip", "link", "del", "s0") })
	skeltest.Host(t, "ip", "link", "set", "s0", "up")
	skeltest.Host(t, "ip", "link", "set", "s1", "up")
	w.conf["binDir"] = skeltest.Build(t, "github.com/cnikit/cnikit/examples/plugins/macvlan", "github.com/cnikit/cnikit/examples/plugins/bridge",
		"github.com/cnikit/cnikit/examples/plugins/static", "github.com/cnikit/cnikit/examples/plugins/host-local")
	for i, six := range []bool{false, false, false, true, true} {
		more := ""
		routes := `{"dst":"0.0.0.0/0"}`
		if six {
			more = fmt.Sprintf(`,{"address":"fd0%[1]d::2/64","gateway":"fd0%[1]d::1"}`, i)
			routes += `,{"dst":"::/0"}`
		}
		w.nad(map[bool]string{true: "kube-system", false: "ns1"}[i == 0], fmt.Sprintf("lan-%d", i), fmt.Sprintf(`{"cniVersion":"1.0.0","type":"macvlan","master":"s0",
			"ipam":{"type":"static","addresses":[{"address":"10.%[1]d.0.2/24","gateway":"10.%[1]d.0.1"}%[2]s],"routes":[%[3]s]}}`, i, more, routes))
	}
	w.nad("ns1", "br", `{"cniVersion":"1.0.0","type":"bridge","bridge":"metric0","isDefaultGateway":true,"ipam":{"type":"host-local","subnet":"10.9.0.0/24","dataDir":"`+w.path("leases")+`"}}`)
	w.conf["clusterNetwork"] = "lan-0"
	return w
}

// Networks that have a default route beside the default network's are no reason to fail, and none to move the pod's
// traffic; with interfaces of any name. It was one where they were attached at once, for who came late with a lower
// metric was refused, and where their plugins were programs, which chose no metric.
func TestSecondDefaultRoute(t *testing.T) {
	const shown = `10.0.0.1 dev eth0
10.1.0.1 dev lan metric 4097
10.2.0.1 dev net2 metric 4098
10.3.0.1 dev x metric 4099
10.4.0.1 dev net4 metric 4100
fd03::1 dev x metric 4099
fd04::1 dev net4 metric 4100
`
	w := routedNetworks(t)
	for name, c := range map[string]struct {
		parallel, times int
		inProcess       []string
	}{
		"in order":           {1, 1, []string{"macvlan", "passthru"}},
		"at once":            {4, 4, []string{"macvlan", "passthru"}},
		"programs, in order": {1, 1, []string{}},
		"programs, at once":  {4, 3, []string{}},
	} {
		t.Run(name, func(t *testing.T) {
			w.conf["parallel"], w.conf["inProcess"] = c.parallel, c.inProcess
			w.pod("lan-1@lan,lan-2,lan-3@x,lan-4")
			for range c.times {
				a := w.add()
				if got := routesShown(w); got != shown {
					t.Errorf("the kernel has\n%sexpected\n%s", got, shown)
				}
				if got := w.entries(); got != "kube-system/lan-0=eth0* ns1/lan-1=lan ns1/lan-2=net2 ns1/lan-3=x ns1/lan-4=net4" {
					t.Error(got)
				}
				w.call(netconf.Check).WithPrev(a).Run(t.Context(), t, w.run).OK(t)
				w.del()
			}
		})
	}
	w.clean()
}

// routesShown are the default routes of the container as the kernel orders them: gateway, link, metric.
func routesShown(w *world) string {
	var out strings.Builder
	for _, family := range []string{"-4", "-6"} {
		for line := range strings.Lines(w.ns.Run("ip", family, "route", "show", "default")) {
			line = strings.NewReplacer("default via ", "", " proto 67", "", " pref medium", "").Replace(line)
			fmt.Fprintln(&out, strings.TrimSpace(line))
		}
	}
	return out.String()
}

// A network whose plugin is a program, and makes a default route of its own, can be asked for it.
func TestDefaultRouteOfAProgram(t *testing.T) {
	w := routedNetworks(t)
	t.Cleanup(func() { skeltest.Host(t, "ip", "link", "del", "metric0") })
	w.conf["inProcess"] = []string{}
	for ask, want := range map[string]string{`[]`: "10.9.0.1 dev net1 metric 4097\n", `["10.9.0.1"]`: "10.9.0.1 dev net1\n"} {
		w.pod(`[{"name":"br","default-route":` + ask + `}]`)
		a := w.add()
		if got := routesShown(w); got != want {
			t.Errorf("%s: the kernel has\n%sexpected\n%s", ask, got, want)
		}
		w.call(netconf.Check).WithPrev(a).Run(t.Context(), t, w.run).OK(t)
		w.del()
	}
	w.clean()
}
