package link_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// ledger is a record that a test can look into, and damage.
type ledger map[string][]byte

func (m ledger) Save(key string, data []byte) error { m[key] = data; return nil }
func (m ledger) Load(key string) ([]byte, error)    { return m[key], nil }
func (m ledger) Forget(key string) error            { delete(m, key); return nil }
func (m ledger) change(t *testing.T, f func(*link.DeviceWas)) {
	t.Helper()
	for key, data := range m {
		var was link.DeviceWas
		if err := json.Unmarshal(data, &was); err != nil {
			t.Fatal(err)
		}
		f(&was)
		data, err := json.Marshal(was)
		if err != nil {
			t.Fatal(err)
		}
		m[key] = data
	}
}

// moved is d0 in the container, up on the host before, and what was kept.
func moved(t *testing.T, ns *skeltest.NS) ledger {
	t.Helper()
	skeltest.Host(t, "sh", "-c", "ip link set d0 mtu 1400 alias uplink up")
	kept := ledger{}
	req := request(t, netconf.Add, ns.Path, "a")
	req.State = kept
	if err := (link.Device{Link: "d0"}).Add(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	return kept
}

// del is a DEL made by hand; the warnings are returned.
func del(t *testing.T, netns string, kept ledger) (warned string) {
	t.Helper()
	req := request(t, netconf.Del, netns, "a")
	if kept != nil {
		req.State = kept
	}
	req.Warn = func(msg string, args ...any) { warned += fmt.Sprint(msg, args, "\n") }
	if err := (link.Device{}).Del(t.Context(), req); err != nil {
		t.Error(err)
	}
	if len(kept) > 0 {
		t.Errorf("still kept: %v", kept)
	}
	return warned
}

// The namespace is gone, and the kernel has given the device back as it does: under the name that it had there, or another,
// down, and with what it was there.
func TestDeviceThatTheKernelGaveBack(t *testing.T) {
	skeltest.NeedRoot(t)
	for _, gave := range []string{"true", "ip link set eth0 name dev9", "ip link set eth0 name dev9 mtu 1300"} {
		for _, netns := range []string{"", "/run/netns/gone"} {
			t.Run(gave+" "+netns, func(t *testing.T) {
				card(t)
				ns := space(t)
				kept := moved(t, ns)
				ns.Run("ip", "link", "set", "eth0", "netns", fmt.Sprint(os.Getpid()))
				skeltest.Host(t, "sh", "-c", gave)
				ns.Remove()
				if warned := del(t, netns, kept); warned != "" {
					t.Error(warned)
				}
				hostIs(t, "d0", "mtu 1400", "alias uplink", "group default", ",UP", "02:00:00:00:00:d0")
			})
		}
	}
}

// Hardware comes back some time after its namespace. A virtual device has gone with it, and is not waited for.
func TestDeviceIsWaitedFor(t *testing.T) {
	skeltest.NeedRoot(t)
	card(t)
	ns, limbo := space(t), space(t)
	kept := moved(t, ns)
	kept.change(t, func(w *link.DeviceWas) { w.Kind = "device" })
	ns.Run("ip", "link", "set", "eth0", "netns", limbo.Path)
	ns.Remove()
	back := make(chan string, 1)
	go func() { // to start ip takes longer than a first look
		out, err := limbo.Try("ip", "link", "set", "eth0", "netns", fmt.Sprint(os.Getpid()))
		back <- fmt.Sprint(out, err)
	}()
	warned := del(t, "", kept)
	if said := <-back; !strings.HasSuffix(said, "<nil>") || warned != "" {
		t.Error(said, warned)
	}
	hostIs(t, "d0", "mtu 1400", "alias uplink")
}

func TestVirtualDeviceGoesWithItsNamespace(t *testing.T) {
	skeltest.NeedRoot(t)
	card(t)
	ns := space(t)
	kept := moved(t, ns)
	ns.Run("ip", "link", "del", "eth0")
	ns.Remove()
	if warned := del(t, "", kept); !strings.Contains(warned, "neither in the container nor on the host") {
		t.Errorf("warnings: %q", warned)
	}
}

// The runtime does not pass a namespace that is there: it is found by what was kept, if its path leads to the same one.
func TestDeviceInANamespaceThatIsNotPassed(t *testing.T) {
	skeltest.NeedRoot(t)
	card(t)
	ns, other := space(t), space(t)
	kept := moved(t, ns)
	if warned := del(t, "", kept); warned != "" {
		t.Error(warned)
	}
	hostIs(t, "d0", "mtu 1400", "alias uplink", ",UP")

	kept = moved(t, ns)
	kept.change(t, func(w *link.DeviceWas) { w.Path = other.Path })
	other.Run("sh", "-c", "for i in 1 2 3 4 5 6 7 8 9; do ip link add l$i type bridge; done")
	same := other.Snapshot()
	del(t, "", kept)
	if diff := same.Diff(other.Snapshot()); diff != "" {
		t.Errorf("taken from another's namespace:\n%s", diff)
	}
}

// What was kept is lost, or cannot be read: the name comes from the alias, ours or the reference plugin's with the
// prevResult to speak for it.
func TestDeviceWithoutARecord(t *testing.T) {
	skeltest.NeedRoot(t)
	prev := prevResult(`{"name":"eth0","mac":"02:00:00:00:00:d0","sandbox":"/x"}`)
	for _, test := range []struct{ name, change, prev, at string }{
		{"ours", "true", "", "d0"},
		{"ours, of a name that cannot be", "ip link set eth0 alias cni:net:a:eth0:from=a/b", "", "dev"},
		{"ours, of a pattern", "ip link set eth0 alias cni:net:a:eth0:from=x%d", "", "dev"},
		{"ours, of a name that is taken", "ip link set eth0 alias cni:net:a:eth0:from=d1", "", "dev"},
		{"ours, renamed", "ip link set eth0 down; ip link set eth0 name net7", "", "d0"},
		{"group alone", "ip link set eth0 alias ''", "", "dev"},
		{"the reference plugin's", "ip link set eth0 alias d0 group default", prev, "d0"},
		{"the reference plugin's, without a prevResult", "ip link set eth0 alias d0 group default", "", ""},
		{"no mark", "ip link set eth0 alias '' group default", prev, ""},
		{"another's", "ip link set eth0 alias cni:net:b:eth0:from=d0", prev, ""},
		{"another kind's", "ip link set eth0 alias cni:net:a:eth0", prev, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			card(t)
			ns := space(t)
			moved(t, ns)
			ns.Run("sh", "-c", test.change)
			p := plugin(link.Device{})
			call := add(ns, "a").With(netconf.Del)
			call.Prev = test.prev
			for range 2 {
				call.Run(t.Context(), t, p).OK(t)
			}
			at := ""
			for _, l := range strings.Split(skeltest.Host(t, "ip", "-o", "link"), "\n") {
				if strings.Contains(l, "02:00:00:00:00:d0") {
					at = strings.Fields(l)[1]
				}
			}
			if test.at == "" && at != "" || !strings.HasPrefix(at, test.at) {
				t.Errorf("on the host as %q, expected %q", at, test.at)
			}
			if at != "" && strings.Contains(skeltest.Host(t, "ip", "link", "show", "dev", strings.TrimSuffix(strings.Split(at, "@")[0], ":")), "alias") {
				t.Error("the mark is left")
			}
		})
	}
}

func TestDeviceWithARecordThatCannotBeRead(t *testing.T) {
	skeltest.NeedRoot(t)
	for _, garbage := range []string{"{", `"x"`, "[]", `{"Index":"x"}`} {
		card(t)
		ns := space(t)
		moved(t, ns)
		kept := ledger{"link.device": []byte(garbage)}
		req := request(t, netconf.Del, ns.Path, "a")
		req.State = kept
		if err := (link.Device{}).Del(t.Context(), req); err != nil {
			t.Errorf("%s: %v", garbage, err)
		}
		hostIs(t, "d0", "group default")
		ignore(t, "ip", "link", "del", "d1")
	}
}

// GC brings back what is in the namespaces of pods that are gone, by what was kept, and what the kernel has given back, and
// leaves the others'.
func TestDeviceGC(t *testing.T) {
	skeltest.NeedRoot(t)
	card(t)
	skeltest.Host(t, "sh", "-c", "ip link add x0 type veth peer name x1; ip link add y0 type veth peer name y1; ip link add z0 type veth peer name z1")
	t.Cleanup(func() { ignore(t, "ip link del x1; ip link del y1; ip link del z1; ip link del z0") })
	before := skeltest.HostSnapshot(t)
	stale, live, lost := space(t), space(t), space(t)
	p := func(name string) skel.Plugin[struct{}] { return plugin(link.Device{Link: name}) }
	add(stale, "stale").Run(t.Context(), t, p("d0")).OK(t)
	add(live, "live").Run(t.Context(), t, p("x0")).OK(t)
	add(lost, "lost").Run(t.Context(), t, p("y0")).OK(t)
	lost.Run("ip", "link", "set", "eth0", "netns", fmt.Sprint(os.Getpid()))
	lost.Remove()
	// Of another network, and of one whose record is gone.
	skeltest.Host(t, "ip", "link", "set", "z0", "alias", "cni:other:gone:eth0:from=z7")
	skeltest.Host(t, "sh", "-c", "ip link set x1 alias cni:net:gone:eth0:from=x1 group 77")
	gc := skeltest.Call{Command: netconf.GC, Path: t.TempDir(), Config: `{"cniVersion":"1.1.0","name":"net","type":"test","cni.dev/valid-attachments":[{"containerID":"live","ifname":"eth0"}]}`}
	gc.Run(t.Context(), t, plugin(link.Device{Link: "d0"}, link.Veth{})).OK(t)
	if !has(live, "eth0") || has(stale, "eth0") {
		t.Error("not the stale one")
	}
	hostIs(t, "z0", "alias cni:other:gone:eth0:from=z7")
	skeltest.Host(t, "ip", "link", "set", "z0", "alias", "")
	add(live, "live").With(netconf.Del).Run(t.Context(), t, p("x0")).OK(t)
	if diff := before.Diff(skeltest.HostSnapshot(t)); diff != "" {
		t.Errorf("not as before:\n%s", diff)
	}
}

// TestDeviceGCWithAnEntryThatDoesNotDecode: GC failed for ever, and kept what was written down of all stale attachments. That one's
// device comes back by its label, when it is on the host; the others' come back at once.
func TestDeviceGCWithAnEntryThatDoesNotDecode(t *testing.T) {
	skeltest.NeedRoot(t)
	card(t)
	skeltest.Host(t, "ip", "link", "add", "x0", "type", "veth", "peer", "name", "x1")
	t.Cleanup(func() { ignore(t, "ip link del x1") })
	unread, stale := space(t), space(t)
	add(unread, "unread").Run(t.Context(), t, plugin(link.Device{Link: "d0"})).OK(t)
	add(stale, "stale").Run(t.Context(), t, plugin(link.Device{Link: "x0"})).OK(t)
	spoilOne := skel.Funcs{Add: nothing, Check: nothing, Status: nothing, Del: nothing,
		GC: func(_ context.Context, req *netconf.Request) error {
			return req.State.(netconf.StaleRecorder).Each(func(id, _ string, kept netconf.Recorder) error {
				if id != "unread" {
					return nil
				}
				return kept.Save("link.device", []byte("{"))
			})
		},
	}.Step()
	gc := skeltest.Call{Command: netconf.GC, Path: t.TempDir(), Config: `{"cniVersion":"1.1.0","name":"net","type":"test","cni.dev/valid-attachments":[]}`}
	a := gc.Run(t.Context(), t, plugin(link.Device{Link: "d0"}, spoilOne)).OK(t)
	if !strings.Contains(a.Stderr, "what was kept cannot be read") {
		t.Errorf("no warning: %s", a.Stderr)
	}
	if has(stale, "eth0") {
		t.Error("the other one stays in its container")
	}
	unread.Run("ip", "link", "set", "eth0", "netns", fmt.Sprint(os.Getpid()))
	unread.Remove()
	gc.Run(t.Context(), t, plugin(link.Device{Link: "d0"})).OK(t)
	for _, device := range []string{"d0", "x0"} {
		hostIs(t, device, "group default")
	}
}
