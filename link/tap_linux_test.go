package link_test

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
	"github.com/cnikit/cnikit/skel/skeltest"
	"golang.org/x/sys/unix"
)

// openTap opens eth0 of a container as a monitor does that runs as a user of a group; -1 is root. The thread ends with it.
func openTap(container *link.NS, flags uint16, uid, gid int) (*os.File, error) {
	type opened struct {
		file *os.File
		err  error
	}
	done := make(chan opened)
	go func() {
		runtime.LockOSThread()
		done <- func() (o opened) {
			var fd int
			if o.err = unix.Setns(container.Fd(), unix.CLONE_NEWNET); o.err != nil {
				return o
			}
			if fd, o.err = unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0); o.err != nil {
				return o
			}
			if gid >= 0 {
				unix.RawSyscall(unix.SYS_SETGROUPS, 0, 0, 0)
				unix.RawSyscall(unix.SYS_SETRESGID, uintptr(gid), uintptr(gid), uintptr(gid))
			}
			if uid >= 0 {
				unix.RawSyscall(unix.SYS_SETRESUID, uintptr(uid), uintptr(uid), uintptr(uid))
			}
			request, _ := unix.NewIfreq("eth0")
			request.SetUint16(unix.IFF_TAP | unix.IFF_NO_PI | flags)
			if o.err = unix.IoctlIfreq(fd, unix.TUNSETIFF, request); o.err != nil {
				unix.Close(fd)
				return o
			}
			o.file = os.NewFile(uintptr(fd), "tap")
			return o
		}()
	}()
	o := <-done
	return o.file, o.err
}

// cable carries frames from one tap to the other, until they are closed.
func cable(from, to *os.File) {
	frame := make([]byte, 1<<16)
	for {
		n, err := from.Read(frame)
		if err != nil {
			return
		}
		if _, err := to.Write(frame[:n]); err != nil && !errors.Is(err, unix.EIO) { // EIO: the other is down
			return
		}
	}
}

func id(n uint32) *uint32 { return &n }

// tapAddresses do without duplicate address detection, which begins with the carrier.
var tapAddresses = link.Addresses{DAD: link.DADOff}

func TestTap(t *testing.T) {
	needs(t, "tap")
	var ends []*os.File
	var spacesOf []*skeltest.NS
	var away []func()
	for i, name := range []string{"a", "b"} {
		ns := space(t)
		_, container := spaces(t, ns)
		same := unchanged(t, ns)
		p := plugin(link.Tap{MTU: 1400, MAC: netconf.MAC{2, 0, 0, 0, 0, byte(i + 1)}}, ipam([]string{"10.1.0.1/24", "10.1.0.2/24"}[i], []string{"fd00:1::1/64", "fd00:1::2/64"}[i]), tapAddresses)
		a := add(ns, name).Run(t.Context(), t, p).OK(t)
		if made := a.Result.Interfaces[0]; made.Name != "eth0" || made.Sandbox != ns.Path || made.Mtu != 1400 || made.Mac != "02:00:00:00:00:0"+string(rune('1'+i)) {
			t.Errorf("interface %+v", made)
		}
		details := ns.Run("ip", "-d", "link", "show", "dev", "eth0")
		for _, want := range []string{"tun type tap", "alias cni:net:" + name + ":eth0", "mtu 1400", "persist on", "pi off"} {
			if !strings.Contains(details, want) {
				t.Errorf("%q is missing in\n%s", want, details)
			}
		}
		add(ns, name).With(netconf.Check).WithPrev(a).Run(t.Context(), t, p).OK(t)
		end, err := openTap(container, 0, -1, -1)
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, end)
		spacesOf = append(spacesOf, ns)
		away = append(away, func() { // the machine behind it still runs
			add(ns, name).With(netconf.Del).WithPrev(a).Run(t.Context(), t, p).OK(t)
			same("after DEL")
		})
	}
	go cable(ends[0], ends[1])
	go cable(ends[1], ends[0])
	spacesOf[0].Ping("10.1.0.2")
	spacesOf[0].Ping("fd00:1::2")
	for i, del := range away {
		del()
		ends[i].Close()
	}
}

// Who may open it: the user and the group are those that were asked for, and without any it is any.
func TestTapOfAUserAndGroup(t *testing.T) {
	needs(t, "tap")
	const user, group, other = 1234, 2345, 3456
	for _, test := range []struct {
		name     string
		tap      link.Tap
		flags    uint16
		uid, gid int
		refused  error
	}{
		{"anybody", link.Tap{}, 0, other, other, nil},
		{"the user", link.Tap{UID: id(user)}, 0, user, other, nil},
		{"another user", link.Tap{UID: id(user)}, 0, other, group, unix.EPERM},
		{"the group", link.Tap{GID: id(group)}, 0, other, group, nil},
		{"another group", link.Tap{GID: id(group)}, 0, user, other, unix.EPERM},
		{"both", link.Tap{UID: id(user), GID: id(group)}, 0, user, group, nil},
		{"the user without the group", link.Tap{UID: id(user), GID: id(group)}, 0, user, other, unix.EPERM},
		{"root alone", link.Tap{UID: id(0)}, 0, user, group, unix.EPERM},
		{"root", link.Tap{UID: id(user), GID: id(group)}, 0, -1, -1, nil},
		{"several queues", link.Tap{UID: id(user), MultiQueue: true}, unix.IFF_MULTI_QUEUE, user, group, nil},
		{"one queue of several", link.Tap{MultiQueue: true}, 0, -1, -1, unix.EINVAL},
		{"several queues of one", link.Tap{}, unix.IFF_MULTI_QUEUE, -1, -1, unix.EINVAL},
	} {
		t.Run(test.name, func(t *testing.T) {
			ns := space(t)
			_, container := spaces(t, ns)
			add(ns, "a").Run(t.Context(), t, plugin(test.tap)).OK(t)
			file, err := openTap(container, test.flags, test.uid, test.gid)
			if !errors.Is(err, test.refused) || (err == nil) != (test.refused == nil) {
				t.Errorf("open: %v, expected %v", err, test.refused)
			}
			if file != nil {
				file.Close()
			}
			if !has(ns, "eth0") {
				t.Error("it went with the program")
			}
			add(ns, "a").With(netconf.Del).Run(t.Context(), t, plugin(test.tap)).OK(t)
		})
	}
}

func TestTapOnABridge(t *testing.T) {
	needs(t, "tap")
	ns := space(t)
	ns.Run("sh", "-c", "ip link add br0 type bridge; ip link add br1 type bridge; ip link set br0 up")
	p := plugin(link.Tap{Bridge: "br0"}, link.Addresses{})
	a := add(ns, "a").Run(t.Context(), t, p).OK(t)
	check := add(ns, "a").With(netconf.Check).WithPrev(a)
	check.Run(t.Context(), t, p).OK(t)
	ns.Run("ip", "link", "set", "eth0", "master", "br1")
	check.Run(t.Context(), t, p).Fails(t, netconf.CodeDifferent, "br0", "br1")
	host, container := spaces(t, ns)
	if _, err := (link.Tap{Bridge: "br0"}).Ensure(t.Context(), host, container, owner("a")); err != nil {
		t.Fatal(err)
	}
	check.Run(t.Context(), t, p).OK(t)
}

func TestTapRefused(t *testing.T) {
	needs(t, "tap")
	for name, test := range map[string]struct {
		tap   link.Tap
		code  uint
		words string
	}{
		"no bridge":        {link.Tap{Bridge: "nosuch"}, netconf.CodeInvalidNetworkConfig, "no such bridge"},
		"another kind":     {link.Tap{Bridge: "lo"}, netconf.CodeInvalidNetworkConfig, "expected a bridge"},
		"mtu above":        {link.Tap{MTU: 65522}, netconf.CodeInvalidNetworkConfig, "68 to 65521"},
		"mtu below":        {link.Tap{MTU: 67}, netconf.CodeInvalidNetworkConfig, "mtu 67"},
		"mtu that is cut":  {link.Tap{MTU: 4294968796}, netconf.CodeInvalidNetworkConfig, "4294968796"},
		"no user":          {link.Tap{UID: id(1<<32 - 1)}, netconf.CodeInvalidNetworkConfig, "tap owner"},
		"a multicast MAC":  {link.Tap{MAC: netconf.MAC{1, 0, 0, 0, 0, 1}}, netconf.CodeExhausted, "link address"},
		"IPAM that fails":  {link.Tap{}, netconf.CodeExhausted, "no addresses left"},
		"mtu of the limit": {link.Tap{MTU: 65521}, netconf.CodeExhausted, "no addresses left"},
	} {
		t.Run(name, func(t *testing.T) {
			ns := space(t)
			same := unchanged(t, ns)
			a := add(ns, "a").Run(t.Context(), t, plugin(test.tap, failing()))
			if name == "a multicast MAC" {
				if a.Exit == 0 || !strings.Contains(a.Err.Msg, test.words) {
					t.Errorf("%s", a.Stdout)
				}
			} else {
				a.Fails(t, test.code, test.words)
			}
			same("after the refused ADD")
		})
	}
}

func TestTapCheck(t *testing.T) {
	needs(t, "tap")
	ns := space(t)
	a := add(ns, "a").Run(t.Context(), t, plugin(link.Tap{UID: id(7), GID: id(8)}, link.Addresses{})).OK(t)
	check := add(ns, "a").With(netconf.Check).WithPrev(a)
	check.Run(t.Context(), t, plugin(link.Tap{UID: id(7), GID: id(8)})).OK(t)
	for _, test := range []struct {
		step  skel.Step
		words []string
	}{
		{link.Tap{UID: id(9), GID: id(8)}, []string{"user", "7", "9"}},
		{link.Tap{UID: id(7)}, []string{"group", "8"}},
		{link.Tap{UID: id(7), GID: id(8), MultiQueue: true}, []string{"queues"}},
		{link.Tap{UID: id(7), GID: id(8), Bridge: "br0"}, []string{"bridge", "br0"}},
	} {
		check.Run(t.Context(), t, plugin(test.step)).Fails(t, netconf.CodeDifferent, test.words...)
	}
	ns.Run("sh", "-c", "ip link del eth0; ip tuntap add mode tun name eth0; ip link set eth0 up")
	check.Run(t.Context(), t, plugin(link.Tap{})).Fails(t, netconf.CodeDifferent, "eth0", "tap")
}

func TestTapEnsure(t *testing.T) {
	needs(t, "tap")
	ns := space(t)
	host, container := spaces(t, ns)
	m := link.Tap{MTU: 1400, MAC: netconf.MAC{2, 0, 0, 0, 0, 1}, UID: id(7)}
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
	if err := m.Delete(t.Context(), host, container, owner("b")); err != nil || !has(ns, "eth0") {
		t.Errorf("Delete by another owner: %v", err)
	}
	for what, do := range map[string]func() error{
		"Create by another owner": func() error { _, err := m.Create(t.Context(), host, container, owner("b")); return err },
		"Ensure by another owner": func() error { _, err := m.Ensure(t.Context(), host, container, owner("b")); return err },
	} {
		if err := do(); netconf.Code(err) != netconf.CodeExists {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, err := (link.Tap{UID: id(9)}).Ensure(t.Context(), host, container, owner("a")); netconf.Code(err) != netconf.CodeDifferent {
		t.Errorf("Ensure with another user: %v", err)
	}
	for range 2 {
		if err := m.Delete(t.Context(), host, container, owner("a")); err != nil || has(ns, "eth0") {
			t.Errorf("Delete: %v", err)
		}
	}
	if err := m.Delete(t.Context(), host, nil, owner("a")); err != nil {
		t.Errorf("Delete without a namespace: %v", err)
	}
}

// While no program has it open CHECK does not want the carrier, nor that detection has ended: neither can be.
func TestTapCheckWithoutAProgram(t *testing.T) {
	needs(t, "tap")
	ns := space(t)
	p := plugin(link.Tap{}, ipam("fd00:1::1/64"), tapAddresses)
	a := add(ns, "a").Run(t.Context(), t, p).OK(t)
	ns.Run("sh", "-c", "echo 1 > /proc/sys/net/ipv6/conf/eth0/accept_dad; ip address del fd00:1::1/64 dev eth0; ip address add fd00:1::1/64 dev eth0")
	check := add(ns, "a").With(netconf.Check).WithPrev(a)
	check.Run(t.Context(), t, p).OK(t)
	ns.Run("ip", "address", "del", "fd00:1::1/64", "dev", "eth0")
	check.Run(t.Context(), t, p).Fails(t, netconf.CodeDifferent, "fd00:1::1")
}
