package link_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
	"golang.org/x/sys/unix"
)

// openMacvtap opens the device behind eth0 of a container as who starts a machine does: by the numbers in the container's /sys.
func openMacvtap(t *testing.T, ns *skeltest.NS) *os.File {
	t.Helper()
	numbers := ns.Run("unshare", "-m", "sh", "-c", "mount -t sysfs none /sys && cat /sys/class/net/eth0/macvtap/tap*/dev")
	var major, minor uint32
	if _, err := fmt.Sscanf(numbers, "%d:%d", &major, &minor); err != nil {
		t.Fatalf("%q: %v", numbers, err)
	}
	node := filepath.Join(t.TempDir(), "tap")
	if err := unix.Mknod(node, unix.S_IFCHR|0o600, int(unix.Mkdev(major, minor))); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(node, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	request, err := unix.NewIfreq("eth0")
	if err != nil {
		t.Fatal(err)
	}
	request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI) // without the header that virtio wants
	if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, request); err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fd), node)
}

// Two machines, each behind its macvtap, and the host behind the parent. The machine is another namespace's tap here, which a
// cable connects to the device: the stack in it has the address.
func TestMacvtap(t *testing.T) {
	needs(t, "macvtap", "tap")
	uplink(t)
	skeltest.Host(t, "ip", "address", "add", "10.1.0.9/24", "dev", "p1")
	var machines, containers []*skeltest.NS
	var away []func()
	var same []func(when string)
	for range 2 {
		ns := space(t)
		containers = append(containers, ns)
		same = append(same, unchanged(t, ns))
	}
	for i, id := range []string{"a", "b"} {
		ns, machine := containers[i], space(t)
		mac := netconf.MAC{2, 0, 0, 0, 0, byte(i + 1)}
		p := plugin(link.Macvtap{Parent: link.Parent{Name: "p0"}, MTU: 1400, MAC: mac}, link.Addresses{})
		made := add(ns, id).Run(t.Context(), t, p).OK(t)
		if l := made.Result.Interfaces[0]; l.Name != "eth0" || l.Sandbox != ns.Path || l.Mtu != 1400 || l.Mac != mac.String() {
			t.Errorf("interface %+v", l)
		}
		details := ns.Run("ip", "-d", "link", "show", "dev", "eth0")
		for _, want := range []string{"macvtap mode bridge", "alias cni:net:" + id + ":eth0", "mtu 1400"} {
			if !strings.Contains(details, want) {
				t.Errorf("%q is missing in\n%s", want, details)
			}
		}
		device := openMacvtap(t, ns)
		tap := plugin(link.Tap{MTU: 1400, MAC: mac}, ipam(fmt.Sprintf("10.1.0.%d/24", i+2)), tapAddresses)
		add(machine, id).Run(t.Context(), t, tap).OK(t)
		_, inside := spaces(t, machine)
		stack, err := openTap(inside, 0, -1, -1)
		if err != nil {
			t.Fatal(err)
		}
		go cable(device, stack)
		go cable(stack, device)
		machines = append(machines, machine)
		away = append(away, func() { // the machine still runs
			later := add(ns, id).WithPrev(made)
			later.With(netconf.Check).Run(t.Context(), t, p).OK(t)
			later.With(netconf.Del).Run(t.Context(), t, p).OK(t)
			device.Close()
			stack.Close()
		})
	}
	for _, m := range machines {
		m.Ping("10.1.0.9")
	}
	machines[0].Ping("10.1.0.3")
	for _, del := range away {
		del()
	}
	for _, check := range same { // with the last one the parent is no longer promiscuous
		check("after DEL")
	}
}

func TestMacvtapCheck(t *testing.T) {
	needs(t, "macvtap")
	uplink(t)
	ns := space(t)
	made := add(ns, "a").Run(t.Context(), t, plugin(link.Macvtap{Parent: link.Parent{Name: "p0"}}, link.Addresses{})).OK(t)
	check := add(ns, "a").With(netconf.Check).WithPrev(made)
	check.Run(t.Context(), t, plugin(link.Macvlan{Parent: link.Parent{Name: "p0"}})).Fails(t, netconf.CodeDifferent, "kind", "macvlan", "macvtap")
	for _, test := range []struct {
		step  link.Macvtap
		words []string
	}{
		{link.Macvtap{Parent: link.Parent{Name: "p0"}, Mode: link.MacvlanVEPA}, []string{"mode", "vepa", "bridge"}},
		{link.Macvtap{Parent: link.Parent{Name: "p1"}}, []string{"parent", "p0", "p1"}},
		{link.Macvtap{Parent: link.Parent{Name: "p0"}, BcQueueLen: 7}, []string{"broadcast queue", "7"}},
	} {
		check.Run(t.Context(), t, plugin(test.step)).Fails(t, netconf.CodeDifferent, test.words...)
	}
}

func TestMacvtapEnsure(t *testing.T) {
	needs(t, "macvtap")
	uplink(t)
	ns := space(t)
	host, container := spaces(t, ns)
	m := link.Macvtap{Parent: link.Parent{Name: "p0"}, MTU: 1400, MAC: netconf.MAC{2, 0, 0, 0, 0, 1}}
	for _, damage := range []string{"true", "ip link set eth0 mtu 1300 down", "ip link set eth0 address 02:00:00:00:00:07", "ip link del eth0"} {
		ns.Run("sh", "-c", damage)
		if _, err := m.Ensure(t.Context(), host, container, owner("a")); err != nil {
			t.Fatalf("%s: %v", damage, err)
		}
		ns.Run("ip", "link", "set", "eth0", "up")
		if err := m.Verify(t.Context(), host, container, owner("a"), nil); err != nil {
			t.Errorf("%s: %v", damage, err)
		}
		if l := ns.Run("ip", "link", "show", "eth0"); !strings.Contains(l, "mtu 1400") || !strings.Contains(l, "02:00:00:00:00:01") {
			t.Errorf("%s: %s", damage, l)
		}
	}
	if _, err := (link.Macvlan{Parent: m.Parent}).Ensure(t.Context(), host, container, owner("a")); netconf.Code(err) != netconf.CodeDifferent {
		t.Errorf("Ensure as another kind: %v", err)
	}
	if _, err := m.Create(t.Context(), host, container, owner("b")); netconf.Code(err) != netconf.CodeExists {
		t.Errorf("Create by another owner: %v", err)
	}
	if err := m.Delete(t.Context(), host, container, owner("b")); err != nil || !has(ns, "eth0") {
		t.Errorf("Delete by another owner: %v", err)
	}
	for range 2 {
		if err := m.Delete(t.Context(), host, container, owner("a")); err != nil || has(ns, "eth0") {
			t.Errorf("Delete: %v", err)
		}
	}
}

func TestMacvtapStatus(t *testing.T) {
	uplink(t)
	p := plugin(link.Macvtap{Parent: link.Parent{Name: "p0"}})
	status := skeltest.Call{Command: netconf.Status, Config: `{"cniVersion":"1.1.0","name":"net","type":"test"}`}
	status.Run(t.Context(), t, p).OK(t)
	skeltest.Host(t, "ip", "link", "del", "p0")
	status.Run(t.Context(), t, p).Fails(t, netconf.CodePluginNotAvailable, "p0")
}
