package link_test

import (
	"context"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	gotypes "go/types"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
	"github.com/cnikit/cnikit/skel/skeltest"
	"github.com/vishvananda/netlink"
)

// What the tests of all kinds have in common.

// plugin is a plugin made of steps: one at least, for a plugin without any passes every CHECK.
func plugin(first skel.Step, more ...skel.Step) skel.Plugin[struct{}] {
	steps := append(skel.Steps{first}, more...)
	return skel.Plugin[struct{}]{
		Name:  "test",
		Steps: func(*netconf.Request, *struct{}) skel.Steps { return steps },
	}
}

// add is the ADD of a container in a namespace.
func add(ns *skeltest.NS, id string) skeltest.Call {
	return skeltest.Call{Command: netconf.Add, ContainerID: id, Netns: ns.Path, IfName: "eth0", Config: `{"cniVersion":"1.1.0","name":"net","type":"test"}`}
}

func owner(id string) link.Owner {
	return link.Owner{Network: "net", ContainerID: id, IfName: "eth0"}
}

// ipam is a step that answers with "ADDRESS/LENGTH" or "ADDRESS/LENGTH GATEWAY" each.
func ipam(answers ...string) skel.Step {
	return skel.Funcs{Title: "ipam", Add: func(_ context.Context, req *netconf.Request) error {
		for _, a := range answers {
			text, gw, _ := strings.Cut(a, " ")
			p, err := netip.ParsePrefix(text)
			if err != nil {
				return err
			}
			req.AddIP(-1, net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}, net.ParseIP(gw))
		}
		return nil
	}, Check: nothing, GC: nothing, Status: nothing}.Step()
}

func nothing(context.Context, *netconf.Request) error { return nil }

// failing is an IPAM step without an address left.
func failing() skel.Step {
	return skel.Funcs{Add: func(context.Context, *netconf.Request) error {
		return netconf.Errorf(netconf.CodeExhausted, "no addresses left")
	}, Check: nothing, GC: nothing, Status: nothing}.Step()
}

// uplink makes the pair p0 and p1 on the host, up: a parent and the network behind it.
func uplink(t *testing.T) {
	t.Helper()
	skeltest.NeedRoot(t)
	skeltest.Host(t, "ip", "link", "add", "p0", "type", "veth", "peer", "name", "p1")
	t.Cleanup(func() { ignore(t, "ip", "link", "del", "p0") })
	for _, name := range []string{"p0", "p1"} { // without a link-local address, which comes by itself in its own time
		skeltest.Host(t, "ip", "link", "set", name, "addrgenmode", "none", "up")
	}
}

// space makes a container's namespace. At the end its link goes at once: the kernel takes its time over a
// namespace, and until then the host's end of a pair is there, under the name that the next test needs.
func space(t *testing.T) *skeltest.NS {
	t.Helper()
	ns := skeltest.NewNS(t)
	t.Cleanup(func() {
		if _, err := os.Stat(ns.Path); err == nil {
			ns.Run("sh", "-c", "for l in eth0 eth1; do ip link del $l 2>/dev/null; done; true")
		}
	})
	return ns
}

// ignore runs a command on the host that may fail: a test may have done its work.
func ignore(t *testing.T, name string, args ...string) {
	skeltest.Host(t, "sh", "-c", "exec 2>/dev/null; "+name+" "+strings.Join(args, " ")+" || true")
}

// spaces opens the host's namespace and a container's.
func spaces(t *testing.T, ns *skeltest.NS) (host, container *link.NS) {
	t.Helper()
	host, err := link.Current()
	if err != nil {
		t.Fatal(err)
	}
	container, err = link.Open(ns.Path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(host.Close(), container.Close()); err != nil {
			t.Error(err)
		}
	})
	return host, container
}

// has tells whether a namespace has a link.
func has(ns *skeltest.NS, name string) bool {
	_, err := ns.Try("ip", "link", "show", "dev", name)
	return err == nil
}

func hostHas(t *testing.T, name string) bool {
	t.Helper()
	skeltest.NeedRoot(t)
	_, err := netlink.LinkByName(name)
	return err == nil
}

// unchanged fails the test if the namespaces are not as they were.
func unchanged(t *testing.T, ns *skeltest.NS) (check func(when string)) {
	t.Helper()
	look := func() skeltest.Snapshot { return append(ns.Snapshot(), skeltest.HostSnapshot(t)...) }
	before := look()
	return func(when string) {
		t.Helper()
		if diff := before.Diff(look()); diff != "" {
			t.Fatalf("%s: not as before:\n%s", when, diff)
		}
	}
}

// request is a request made by hand, for what skel would refuse or change first.
func request(t *testing.T, command netconf.Command, netns, id string) *netconf.Request {
	t.Helper()
	config := []byte(`{"cniVersion":"1.1.0","name":"net","type":"test"}`)
	network, err := netconf.ParseNetwork(config)
	if err != nil {
		t.Fatal(err)
	}
	req := &netconf.Request{Command: command, ContainerID: id, Netns: netns, IfName: "eth0", Network: network, Config: config}
	t.Cleanup(func() {
		if err := req.Close(); err != nil {
			t.Error(err)
		}
	})
	return req
}

// kind is a kind of link that is made in the container.
type kind struct {
	name       string
	step       skel.Step
	insideOnly bool      // there is nothing of it on the host: it goes with the container's namespace
	broken     skel.Step // one that no ADD can make, because of something on the host that is not there
	sharedMAC  bool      // the hardware address is another link's, and cannot be changed
}

// kinds is what the tests of faults_linux_test.go, faults_del and faults_check run through: a new kind needs
// this one line. p0 and p1 are parents (uplink), of one kind of links each; br7 is a bridge (bridge).
func kinds() []kind {
	return []kind{
		{"macvlan", link.Macvlan{Parent: link.Parent{Name: "p0"}}, true, link.Macvlan{Parent: link.Parent{Name: "nosuch"}}, false},
		{"macvtap", link.Macvtap{Parent: link.Parent{Name: "p0"}}, true, link.Macvtap{Parent: link.Parent{Name: "nosuch"}}, false},
		{"ipvlan", link.IPvlan{Parent: link.Parent{Name: "p1"}}, true, link.IPvlan{Parent: link.Parent{Name: "nosuch"}}, true},
		{"veth", link.Veth{}, false, link.Veth{Bridge: "nosuch"}, false},
		{"veth on a bridge", link.Veth{Bridge: "br7"}, false, link.Veth{Bridge: "nosuch"}, false},
		{"netkit", link.Netkit{}, false, link.Netkit{MTU: 1}, true},
		{"netkit l2", link.Netkit{Mode: link.NetkitL2}, false, link.Netkit{MTU: 1}, false},
		{"tap", link.Tap{}, true, link.Tap{Bridge: "nosuch"}, false},
		{"vlan", link.VLAN{Parent: link.Parent{Name: "p0"}, ID: 7}, true, link.VLAN{Parent: link.Parent{Name: "nosuch"}}, false},
		{"dummy", link.Dummy{}, true, link.Dummy{MTU: 1}, false},
	}
}

// single tells whether there is room for one link of the kind's step only: a parent has one for each VLAN.
func (k kind) single() bool { return k.name == "vlan" }

// kindsHere are those that this kernel has. TestKernelHasKind says for each whether the tests ran with it.
func kindsHere(t *testing.T) []kind {
	t.Helper()
	return slices.DeleteFunc(kinds(), func(k kind) bool { return lacks(t, k.step.(skel.Namer).Name()) })
}

// TestKernelHasKind is skipped for a kind that the tests of all kinds leave out here, so that the gate fails if they
// do so in every kernel.
func TestKernelHasKind(t *testing.T) {
	skeltest.NeedRoot(t)
	for _, k := range kinds() {
		t.Run(k.name, func(t *testing.T) { needs(t, k.step.(skel.Namer).Name()) })
	}
}

// needs skips the test if the kernel lacks one of these kinds of links.
func needs(t *testing.T, kinds ...string) {
	t.Helper()
	for _, kind := range kinds {
		if lacks(t, kind) {
			t.Skipf("the kernel lacks links of the kind %s", kind)
		}
	}
}

// lacks tries to make a link of a kind. For one that it has the kernel makes it, or finds another fault.
func lacks(t *testing.T, kind string) bool {
	t.Helper()
	if kind == (link.Tap{}).Name() { // which no message makes
		_, err := os.Stat("/sys/class/misc/tun")
		return err != nil
	}
	ns := skeltest.NewNS(t)
	defer ns.Remove()
	n, err := link.Open(ns.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer n.Close()
	_, err = link.CreateLink(t.Context(), owner("try"), n, n, bare(kind))
	return errors.Is(err, link.ErrNotSupported)
}

// bare is a link of a kind without anything but a parent that is none, the loopback: netlink itself refuses some
// kinds without one.
func bare(kind string) netlink.Link {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.ParentIndex = "eth0", 1
	return &netlink.GenericLink{LinkAttrs: attrs, LinkType: kind}
}

// A kind that the kernel does not have is named, and nothing was changed.
func TestKindThatTheKernelLacks(t *testing.T) {
	ns := space(t)
	_, container := spaces(t, ns)
	same := unchanged(t, ns)
	_, err := link.CreateLink(t.Context(), owner("a"), container, container, bare("cnikitnosuch"))
	if !errors.Is(err, link.ErrNotSupported) || netconf.Code(err) != netconf.CodeNotSupported || !strings.Contains(err.Error(), "lacks links of the kind cnikitnosuch") {
		t.Errorf("%v, code %d", err, netconf.Code(err))
	}
	same("after the refusal")
}

// TestKindMissingInKinds: a type whose Create makes a link in a container has its line in kinds, or nothing holds it
// to what every kind is held to.
func TestKindMissingInKinds(t *testing.T) {
	t.Parallel()
	listed := map[string]bool{}
	for _, k := range kinds() {
		listed[reflect.TypeOf(k.step).Name()] = true
	}
	for name, methods := range coreMethods(t) {
		kind := name != "Device" && // it is moved, not made, and there is one: its own tests hold it to the same
			namespaces(methods["Create"]) == 2 && methods["Ensure"] != nil && methods["Verify"] != nil && methods["Delete"] != nil
		if kind != listed[name] {
			t.Errorf("%s makes a link in a container: %v, is in kinds(): %v", name, kind, listed[name])
		}
	}
}

// coreMethods lists the methods of this package's types, as they stand in its files.
func coreMethods(t *testing.T) map[string]map[string]*ast.FuncDecl {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]map[string]*ast.FuncDecl{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv == nil {
				continue
			}
			of := strings.TrimPrefix(gotypes.ExprString(f.Recv.List[0].Type), "*")
			if types[of] == nil {
				types[of] = map[string]*ast.FuncDecl{}
			}
			types[of][f.Name.Name] = f
		}
	}
	return types
}

// namespaces counts a method's parameters of the type *NS: the host's and the container's for a kind of link.
func namespaces(f *ast.FuncDecl) (n int) {
	if f == nil {
		return 0
	}
	for _, p := range f.Type.Params.List {
		if gotypes.ExprString(p.Type) == "*NS" {
			n += len(p.Names)
		}
	}
	return n
}

// TestSecondLinkWithTheSameAttributes: a kind may have a rule besides the name's (one vxlan for each VNI and port). The
// error names the link that was wanted, not the name that it was tried under aside, and why it cannot be.
func TestSecondLinkWithTheSameAttributes(t *testing.T) {
	uplink(t)
	ns := space(t)
	host, container := spaces(t, ns)
	skeltest.Host(t, "ip", "link", "add", "vx0", "type", "vxlan", "id", "7", "dev", "p0", "dstport", "4789")
	t.Cleanup(func() { ignore(t, "ip link del vx0") })
	parent := hostLink(t, "p0").Attrs().Index
	for name, in := range map[string]*link.NS{"container": container, "host": host} {
		same := unchanged(t, ns)
		attrs := netlink.NewLinkAttrs()
		attrs.Name = "eth0"
		l := &netlink.Vxlan{LinkAttrs: attrs, VxlanId: 7, VtepDevIndex: parent, Port: 4789}
		_, err := link.CreateLink(t.Context(), owner("a"), host, in, l)
		if !errors.Is(err, netconf.ErrExists) || !strings.Contains(err.Error(), `"eth0"`) || !strings.Contains(err.Error(), "another link of kind vxlan") {
			t.Errorf("in the %s: %v", name, err)
		}
		same(name)
	}
}

// bridge makes br7 on the host, an administrator's.
func bridge(t *testing.T) {
	t.Helper()
	skeltest.Host(t, "ip", "link", "add", "br7", "address", "02:00:00:00:00:77", "type", "bridge")
	t.Cleanup(func() { ignore(t, "ip link del br7; ip link del q0") })
	skeltest.Host(t, "ip", "link", "set", "br7", "addrgenmode", "none", "up")
	// A port of its own, so that it keeps its carrier and its limits when the tests' ports come and go.
	skeltest.Host(t, "sh", "-c", "ip link add q0 type veth peer name q1; ip link set q1 addrgenmode none up; ip link set q0 addrgenmode none master br7 up")
	skeltest.Host(t, "timeout", "10", "sh", "-c", "until bridge link show dev q0 | grep -q 'state forwarding'; do sleep 0.01; done") // the carrier comes in the kernel's own time
}

// recording is a hook that notes the operations.
func recording(ops *[]string) netconf.Fault {
	return func(_ context.Context, op string) error {
		*ops = append(*ops, op)
		return nil
	}
}
