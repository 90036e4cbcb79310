package ipam_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/cnikit/cnikit/internal/testbin"
	"github.com/cnikit/cnikit/ipam"
	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// segment is a network with a DHCP server behind the host's link "uplink", and the reference dhcp plugin with its daemon: it
// asks for a lease through the interface that is being made, and gives it back through the one that goes.
type segment struct {
	t      *testing.T
	dir    string // the socket, and what the server says and has leased
	path   string // CNI_PATH
	plugin skeltest.Plugin
}

const router = "10.55.0.1" // the server

func newSegment(t *testing.T) *segment {
	t.Helper()
	skeltest.NeedRoot(t)
	l := &segment{t: t, dir: t.TempDir(), plugin: skeltest.Binary(testbin.Plugin(t, "macvlan")), path: testbin.Reference(t, testbin.DHCP)}
	server := skeltest.NewNS(t)
	skeltest.Host(t, "ip", "link", "add", "uplink", "type", "veth", "peer", "name", "s0", "netns", server.Path)
	t.Cleanup(func() { skeltest.Host(t, "ip", "link", "del", "uplink") })
	skeltest.Host(t, "ip", "link", "set", "uplink", "addrgenmode", "none", "up")
	server.Run("ip", "addr", "add", router+"/24", "dev", "s0")
	server.Run("ip", "link", "set", "s0", "addrgenmode", "none", "up")
	l.start("dnsmasq", "nsenter", "--net="+server.Path, "dnsmasq", "--keep-in-foreground", "--port=0", "--conf-file=/dev/null", "--user=root", "--no-ping",
		"--bind-interfaces", "--interface=s0", "--dhcp-range=10.55.0.100,10.55.0.150,255.255.255.0,2m", "--dhcp-option=3,"+router,
		"--dhcp-authoritative", "--dhcp-leasefile="+l.file("leases"), "--log-dhcp", "--log-facility="+l.file("log"), "--pid-file="+l.file("pid"))
	skeltest.Eventually(t, "the DHCP server has begun", func() bool { return strings.Contains(l.read("log"), "sockets bound exclusively to interface s0") })
	return l
}

func (l *segment) file(name string) string { return filepath.Join(l.dir, name) }

func (l *segment) read(name string) string {
	data, err := os.ReadFile(l.file(name))
	if err != nil && !os.IsNotExist(err) {
		l.t.Error(err)
	}
	return string(data)
}

// start runs a program until the returned function is called, the test ends, or the test's process dies.
func (l *segment) start(what, program string, args ...string) (stop func()) {
	l.t.Helper()
	var said strings.Builder
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started, ended := make(chan error, 1), make(chan struct{})
	go func() {
		runtime.LockOSThread() // the signal is sent when the thread that forked ends
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // it is killed in the end
		}
		close(ended)
	}()
	if err := <-started; err != nil {
		l.t.Fatal(err)
	}
	stop = func() {
		_ = cmd.Process.Kill() // it may have been stopped already
		<-ended
	}
	l.t.Cleanup(func() {
		stop()
		if l.t.Failed() {
			l.t.Logf("%s said: %s", what, said.String())
		}
	})
	return stop
}

// daemon starts the dhcp plugin's daemon.
func (l *segment) daemon() (stop func()) {
	l.t.Helper()
	stop = l.start("the dhcp daemon", filepath.Join(l.path, "dhcp"), "daemon", "-socketpath", l.file("sock"))
	skeltest.Eventually(l.t, "the dhcp daemon listens", func() bool {
		conn, err := net.Dial("unix", l.file("sock"))
		if err == nil {
			_ = conn.Close() // nothing was sent
		}
		return err == nil
	})
	return stop
}

// add is the ADD of a container.
func (l *segment) add(ns *skeltest.NS) skeltest.Call {
	return skeltest.Call{Command: netconf.Add, ContainerID: ns.Name, Netns: ns.Path, IfName: "eth0", Path: l.path,
		Config: fmt.Sprintf(`{"cniVersion":"1.1.0","name":"net","type":"macvlan","master":"uplink","ipam":{"type":"dhcp","daemonSocketPath":%q}}`, l.file("sock"))}
}

// attach is an ADD that succeeds, and the address that it got. The test is skipped on a kernel without macvlan.
func (l *segment) attach(ns *skeltest.NS) (skeltest.Answer, string) {
	l.t.Helper()
	a := l.add(ns).Run(l.t.Context(), l.t, l.plugin)
	if a.Exit != 0 && a.Err.Code == netconf.CodeNotSupported {
		l.t.Skip(a.Err.Msg)
	}
	a.OK(l.t)
	if len(a.Result.IPs) != 1 || a.Result.IPs[0].Gateway.String() != router || !strings.HasPrefix(a.Result.IPs[0].Address.String(), "10.55.0.1") {
		l.t.Fatalf("result %s", a.Stdout)
	}
	return a, a.Result.IPs[0].Address.IP.String()
}

// released waits until the server was told that an address is free, and has forgotten the lease.
func (l *segment) released(address string) {
	l.t.Helper()
	skeltest.Eventually(l.t, "the server hears that "+address+" is free", func() bool {
		return strings.Contains(l.read("log"), "DHCPRELEASE(s0) "+address+" ") && !strings.Contains(l.read("leases"), address)
	})
}

// releasedSince finds the lease that was given after a place in the server's log, and waits until it is free.
func (l *segment) releasedSince(heard int) {
	l.t.Helper()
	leased := regexp.MustCompile(`DHCPACK\(s0\) ([0-9.]+) `).FindStringSubmatch(l.read("log")[heard:])
	if leased == nil {
		l.t.Fatalf("it failed before it had a lease: %s", l.read("log")[heard:])
	}
	skeltest.Eventually(l.t, "the lease is released", func() bool {
		return strings.Contains(l.read("log")[heard:], "DHCPRELEASE(s0) "+leased[1]+" ") && l.read("leases") == ""
	})
}

// A lease is had before the addresses are put on the interface, and given back as long as it and they are there: also
// by the DEL that has a prevResult, as runtimes send it, which takes the addresses off first with any other IPAM plugin.
func TestDHCPLease(t *testing.T) {
	red, blue, l := skeltest.NewNS(t), skeltest.NewNS(t), newSegment(t)
	l.daemon()
	empty := red.Snapshot()
	first, one := l.attach(red)
	_, two := l.attach(blue)
	red.Ping(router)
	red.Ping(two)
	if !strings.Contains(red.Run("ip", "route"), "default via "+router) || one == two || !strings.Contains(l.read("leases"), one) {
		t.Errorf("addresses %s, %s, routes %s, leases %s", one, two, red.Run("ip", "route"), l.read("leases"))
	}
	l.add(red).With(netconf.Check).WithPrev(first).Run(t.Context(), t, l.plugin).OK(t)
	l.add(red).With(netconf.Del).WithPrev(first).Run(t.Context(), t, l.plugin).OK(t)
	l.released(one)
	l.add(blue).With(netconf.Del).Run(t.Context(), t, l.plugin).OK(t)
	l.released(two)
	l.add(red).With(netconf.Del).WithPrev(first).Run(t.Context(), t, l.plugin).OK(t) // there is nothing left to release
	if diff := empty.Diff(red.Snapshot()); diff != "" {
		t.Errorf("left behind: %s", diff)
	}
}

// The ADD fails when the address is on the interface, at a route, or when nobody reads the result: the rollback gives
// the lease back through the interface that it takes away after.
func TestDHCPLeaseIsReleasedByTheRollback(t *testing.T) {
	ns, l := skeltest.NewNS(t), newSegment(t)
	l.daemon()
	_, address := l.attach(ns)
	l.add(ns).With(netconf.Del).Run(t.Context(), t, l.plugin).OK(t)
	l.released(address)
	before := ns.Snapshot()
	inProcess := skel.Plugin[config]{Name: "macvlan", Steps: func(req *netconf.Request, _ *config) skel.Steps {
		return skel.Steps{link.Macvlan{Parent: link.Parent{Name: "uplink"}}, ipam.FromConfig(req), link.Addresses{}}
	}}
	broken := netconf.WithFault(t.Context(), func(_ context.Context, op string) error {
		if strings.HasPrefix(op, "route") {
			return io.ErrClosedPipe
		}
		return nil
	})
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	for _, fail := range []func() skeltest.Answer{
		func() skeltest.Answer { return l.add(ns).Run(broken, t, inProcess) },
		func() skeltest.Answer {
			unread := l.add(ns)
			unread.Stdout = full
			return unread.Run(t.Context(), t, l.plugin)
		},
	} {
		heard := len(l.read("log"))
		if a := fail(); a.Exit == 0 || strings.Contains(a.Err.Msg, "dhcp") {
			t.Fatalf("exit status %d: %s", a.Exit, a.Err.Msg)
		}
		l.releasedSince(heard)
		if diff := before.Diff(ns.Snapshot()); diff != "" {
			t.Errorf("left behind: %s", diff)
		}
	}
}

// Without the daemon an ADD fails at once, with the code that asks to come again, and a DEL succeeds: before any lease,
// and after the daemon was killed, which leaves its socket.
func TestDHCPDaemonIsNotThere(t *testing.T) {
	ns, l := skeltest.NewNS(t), newSegment(t)
	stop := l.daemon()
	before := ns.Snapshot()
	a, _ := l.attach(ns)
	stop()
	for _, del := range []skeltest.Call{l.add(ns).With(netconf.Del).WithPrev(a), l.add(ns).With(netconf.Del)} {
		if said := del.Run(t.Context(), t, l.plugin).OK(t).Stderr; !strings.Contains(said, "daemon is not there") {
			t.Errorf("no warning: %s", said)
		}
	}
	for range 2 { // with the socket that nobody listens on, and without
		l.add(ns).Run(t.Context(), t, l.plugin).Fails(t, netconf.CodeTryAgainLater, "dialing DHCP daemon", l.file("sock"))
		if diff := before.Diff(ns.Snapshot()); diff != "" {
			t.Errorf("left behind: %s", diff)
		}
		if err := os.RemoveAll(l.file("sock")); err != nil {
			t.Fatal(err)
		}
	}
	l.daemon()
	l.attach(ns)
	l.add(ns).With(netconf.Del).Run(t.Context(), t, l.plugin).OK(t)
}

// The ADD is refused before the address is on the interface, for a second default route or a plan that makes no sense: the
// lease is given back all the same, or each retry, which has another id, would cost another one.
func TestDHCPLeaseIsReleasedThoughTheAddressWasNeverThere(t *testing.T) {
	ns, l := skeltest.NewNS(t), newSegment(t)
	l.daemon()
	_, address := l.attach(ns)
	l.add(ns).With(netconf.Del).Run(t.Context(), t, l.plugin).OK(t)
	l.released(address)
	ns.Run("ip", "link", "add", "other", "type", "veth", "peer", "name", "end")
	ns.Run("ip", "addr", "add", "192.0.2.2/24", "dev", "other")
	for _, link := range []string{"other", "end"} {
		ns.Run("ip", "link", "set", link, "addrgenmode", "none", "up")
	}
	before := ns.Snapshot()
	senseless := skel.Plugin[config]{Name: "macvlan", Steps: func(req *netconf.Request, _ *config) skel.Steps {
		worse := skel.Funcs{Add: func(_ context.Context, req *netconf.Request) error {
			req.AddRoute(&types.Route{Dst: net.IPNet{IP: net.IPv4(10, 8, 0, 0).To4(), Mask: net.CIDRMask(16, 32)}, GW: net.ParseIP("fd00::1")})
			return nil
		}}
		worse.Check = worse.Add
		worse.GC, worse.Status = worse.Add, worse.Add
		return skel.Steps{link.Macvlan{Parent: link.Parent{Name: "uplink"}}, ipam.FromConfig(req), worse.Step(), link.Addresses{}}
	}}
	for _, c := range []struct {
		plugin skeltest.Plugin
		word   string
	}{{senseless, "other family"}, {l.plugin, "default"}} {
		if c.word == "default" {
			ns.Run("ip", "route", "add", "default", "via", "192.0.2.1")
			before = ns.Snapshot()
		}
		heard := len(l.read("log"))
		if a := l.add(ns).Run(t.Context(), t, c.plugin); a.Exit == 0 || !strings.Contains(a.Err.Msg, c.word) || strings.Contains(a.Err.Msg, "rollback") {
			t.Fatalf("exit status %d: %s: expected %q in it", a.Exit, a.Err.Msg, c.word)
		}
		l.releasedSince(heard)
		if diff := before.Diff(ns.Snapshot()); diff != "" {
			t.Errorf("left behind: %s", diff)
		}
	}
}

// The namespace's path is gone before the DEL: the daemon, which is in the namespace still, releases all the same.
func TestDHCPLeaseIsReleasedWithoutNamespace(t *testing.T) {
	ns, l := skeltest.NewNS(t), newSegment(t)
	l.daemon()
	a, address := l.attach(ns)
	ns.Remove()
	l.add(ns).With(netconf.Del).WithPrev(a).Run(t.Context(), t, l.plugin).OK(t)
	l.released(address)
}
