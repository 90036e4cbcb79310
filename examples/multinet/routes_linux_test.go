package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/examples/multinet/kube/kubetest"
	"github.com/cnikit/cnikit/netconf"
)

// routed makes the world's container one that has eth0, with the default routes, and net1, as if the spy made them.
func routed(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	w.spies("ns1/net-a", "ns1/net-b")
	w.ns.Run("sh", "-ec", `
		for i in 0 1; do
			name=eth0; [ $i = 1 ] && name=net1
			ip link add $name type veth peer name p$i
			ip link set $name addrgenmode none up; ip link set p$i addrgenmode none up
			ip address add 10.$i.0.2/24 dev $name; ip address add fd0$i::2/64 dev $name nodad
		done
		ip route add default via 10.0.0.1 dev eth0; ip route add default via 10.0.0.3 dev eth0 metric 7
		ip -6 route add default via fd00::1 dev eth0
		ip route add default via 10.1.0.3 dev net1 metric 9`)
	w.write("answer.eth0", `{"cniVersion":"1.0.0","interfaces":[{"name":"eth0","sandbox":"`+w.ns.Path+`"}],"ips":[{"interface":0,"address":"10.0.0.2/24","gateway":"10.0.0.1"},{"interface":0,"address":"fd00::2/64"}],`+
		`"routes":[{"dst":"0.0.0.0/0","gw":"10.0.0.1"},{"dst":"0.0.0.0/0","gw":"10.0.0.3","priority":7},{"dst":"::/0","gw":"fd00::1"},{"dst":"10.0.0.0/8","gw":"10.0.0.1"}]}`)
	w.write("answer.net1", `{"cniVersion":"1.0.0","interfaces":[{"name":"net1","sandbox":"`+w.ns.Path+`"}],"ips":[{"interface":0,"address":"10.1.0.2/24"},{"interface":0,"address":"fd01::2/64"}],`+
		`"routes":[{"dst":"0.0.0.0/0","gw":"10.1.0.3","priority":9}]}`)
	return w
}

func (w *world) defaults() string {
	w.t.Helper()
	return strings.Join(strings.Fields(w.ns.Run("ip", "route", "show", "default")+" "+w.ns.Run("ip", "-6", "route", "show", "default")), " ")
}

// routes are the routes of a result, "dst>gw" each.
func routes(t *testing.T, text string) string {
	t.Helper()
	var result struct{ Routes []struct{ Dst, GW string } }
	if err := json.Unmarshal([]byte(text), &result); err != nil {
		t.Fatalf("%v: %q", err, text)
	}
	var all []string
	for _, r := range result.Routes {
		all = append(all, r.Dst+">"+r.GW)
	}
	return strings.Join(all, " ")
}

// TestDefaultRoute: the kernel, the answer, the record, CHECK's prevResult and the status say the same.
func TestDefaultRoute(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ asks, shown, eth0, net1, status, gateways string }{
		"v4": {`["10.1.0.1"]`, "default via 10.1.0.1 dev net1 proto 67 default via fd00::1 dev eth0 metric 1024 pref medium",
			"::/0>fd00::1 10.0.0.0/8>10.0.0.1", "0.0.0.0/0>10.1.0.1", "defnet=eth0 ns1/net-a=net1*", "10.1.0.1"},
		"both families, two gateways": {`["10.1.0.1","fd01::1","10.1.0.9"]`, "default via 10.1.0.1 dev net1 proto 67 default via 10.1.0.9 dev net1 proto 67 metric 1 default via fd01::1 dev net1 proto 67 metric 1024 pref medium",
			"10.0.0.0/8>10.0.0.1", "0.0.0.0/0>10.1.0.1 0.0.0.0/0>10.1.0.9 ::/0>fd01::1", "defnet=eth0 ns1/net-a=net1*", "10.1.0.1 10.1.0.9 fd01::1"},
		"its own": {`[]`, "default via 10.1.0.3 dev net1 metric 9", "10.0.0.0/8>10.0.0.1", "0.0.0.0/0>10.1.0.3", "defnet=eth0 ns1/net-a=net1*", "10.1.0.3"},
	} {
		t.Run(name, func(t *testing.T) {
			w := routed(t)
			w.pod(`[{"name":"net-a","default-route":` + c.asks + `}]`)
			answer := w.add()
			if got := w.defaults(); got != c.shown {
				t.Errorf("the kernel has  %s\nexpected        %s", got, c.shown)
			}
			if got := routes(t, answer.Stdout); got != c.eth0 {
				t.Errorf("the answer has %s; expected %s", got, c.eth0)
			}
			w.call(netconf.Check).WithPrev(answer).Run(t.Context(), t, w.run).OK(t)
			for ifname, want := range map[string]string{"eth0": c.eth0, "net1": c.net1} {
				if got := routes(t, string(w.in("CHECK." + ifname)["prevResult"])); got != want {
					t.Errorf("CHECK of %s sees %s; expected %s", ifname, got, want)
				}
			}
			if got := w.entries(); got != c.status {
				t.Errorf("status %s; expected %s", got, c.status)
			}
			var list []struct{ Gateway []string }
			if err := json.Unmarshal([]byte(w.api.Annotations("ns1", "p")["k8s.v1.cni.cncf.io/network-status"]), &list); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(list[1].Gateway, " "); got != c.gateways {
				t.Errorf("the status' gateways %s; expected %s", got, c.gateways)
			}
			w.del()
			w.clean()
		})
	}
}

// A network that keeps its own default routes and has none leaves the pod none: no entry of the status claims it.
func TestDefaultRouteOfNobody(t *testing.T) {
	w := routed(t)
	w.ns.Run("ip", "route", "del", "default", "dev", "net1")
	w.write("answer.net1", strings.Replace(w.read("answer.net1"), `{"dst":"0.0.0.0/0","gw":"10.1.0.3","priority":9}`, "", 1))
	w.pod(`[{"name":"net-a","default-route":[]}]`)
	w.add()
	if got := w.defaults(); got != "" {
		t.Errorf("the kernel has %s", got)
	}
	if got := w.entries(); got != "defnet=eth0 ns1/net-a=net1" {
		t.Errorf("status %s; there is no default route", got)
	}
	w.del()
	w.clean()
}

// TestDefaultRouteUndone: when the ADD fails after it, and when it fails itself, the routes are as before and all networks get
// their DEL.
func TestDefaultRouteUndone(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		asks  string
		fault kubetest.Fault
		code  uint
		word  string
	}{
		"no right to patch": {`["10.1.0.1","fd01::1"]`, kubetest.Fault{Method: "PATCH", Status: 403}, 11, "network-status"},
		"no way to it":      {`["10.9.9.9"]`, kubetest.Fault{Method: "NONE"}, 7, "no way to the gateway 10.9.9.9"},
	} {
		t.Run(name, func(t *testing.T) {
			w := routed(t)
			before := w.defaults()
			w.api.Fail(c.fault)
			w.pod(`[{"name":"net-a","default-route":` + c.asks + `}]`)
			w.do(netconf.Add).Fails(t, c.code, c.word)
			if got := w.defaults(); got != before {
				t.Errorf("the kernel has %s\nbefore         %s", got, before)
			}
			if got := w.log(); got != "ADD eth0, ADD net1, DEL net1, DEL eth0" {
				t.Errorf("called: %s", got)
			}
			w.del()
			w.clean()
		})
	}
}
