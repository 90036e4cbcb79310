package nat

import (
	"bytes"
	"net/netip"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/containernetworking/cni/pkg/types"
)

// What comes from the kernel is read without trust: a message that is cut off, or lies about its length, is no
// reason to panic, nor to go round for ever.
func FuzzAnswers(f *testing.F) {
	whole := message{kind: newElement, seq: 7, family: familyInet,
		body: *list("ports4", []element{{key: []byte{6, 0, 0, 0}, value: []byte{1, 2, 3, 4}, owner: "cni:a:b:c"}}, true)}.append(nil)
	f.Add(whole)
	f.Add(whole[:len(whole)-3])
	f.Add(bytes.Repeat([]byte{0xff}, 40))
	f.Add(bytes.Repeat([]byte{4, 0, 1, 0}, 10))
	f.Add(message{kind: newElement, body: *list("", []element{{value: []byte{1, 2, 3, 4}}}, true)}.append(nil)) // of no set: this panicked
	f.Fuzz(func(_ *testing.T, b []byte) {
		for m, rest, ok := cut(b); ok; m, rest, ok = cut(rest) {
			for _, e := range read(m.body) {
				_, _ = describe(e), mappingsOf([]element{e})
				if first, n, ok := e.place(); ok {
					_ = first.at(n)
				}
			}
			_, _, _ = tupleOf(inside(m.body, 1))
			_ = errno(m.body)
			_, _, _ = sameRules(chains(nil)[0].rules, [][]byte{m.body})
			_ = commentOf(m.body)
		}
	})
}

func TestElementsAreReadAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	want := []element{
		{set: "ports4", key: []byte{6, 0, 0, 0, 0x1f, 0x90, 0, 0}, value: []byte{10, 1, 0, 2, 0, 80, 0, 0}, owner: "cni:net:c1:eth0"},
		{set: "ports4", key: []byte{17, 0, 0, 0, 0, 53, 0, 0}, value: []byte{10, 1, 0, 2, 0, 53, 0, 0}, owner: "cni:net:c2:eth0"},
	}
	m, rest, ok := cut(message{kind: newElement, body: *list("ports4", want, true)}.append(nil))
	have := read(m.body)
	if !ok || len(rest) > 0 || len(have) != 2 || !have[0].equal(want[0]) || !have[1].equal(want[1]) {
		t.Errorf("%+v", have)
	}
	if s := describe(have[0]); s != "tcp port 8080 to 10.1.0.2:80" {
		t.Error(s)
	}
}

// Where an owner has a shared element is read as it was written.
func TestPlacesOfSharedElementsAreReadAsTheyAreWritten(t *testing.T) {
	t.Parallel()
	for _, p := range []string{"10.1.0.2/24", "10.1.0.2/32", "0.0.0.1/0", "fd00:1::2/64", "fd00:1::2/128", "::2/0"} {
		subnet := netip.MustParsePrefix(p)
		near, _ := within(nearSet, subnet.Addr(), subnet)
		hairpin, _ := within(hairpinSet, subnet.Addr(), subnet)
		for _, e := range []element{{set: setName(sourcesSet, subnet.Addr().Is6()), key: addrKey(subnet.Addr())}, near, hairpin} {
			for _, n := range []int{0, 1, 2, 65535} {
				first, have, ok := e.at(n).place()
				if !ok || have != n || first.set != e.set || !bytes.Equal(first.key, e.key) {
					t.Errorf("%s, owner %d: it is at %+v, which is read as owner %d of %+v", describe(e), n, e.at(n), have, first)
				}
				if describe(e.at(n)) != describe(e) {
					t.Errorf("%s: %s", describe(e), describe(e.at(n)))
				}
			}
		}
	}
	for _, e := range []element{
		{set: "ports4", key: []byte{6, 0, 0, 0, 0, 80, 0, 0}}, {set: "further4"}, {set: "further4", key: make([]byte, 16)}, // of no set
		{set: "further4", key: element{set: "near4_24", key: make([]byte, 8)}.at(1).key[:12]},
		{set: "sources", key: make([]byte, 4)}, {set: "further6", key: make([]byte, 16)},
	} {
		if first, n, ok := e.place(); ok {
			t.Errorf("%+v is taken for owner %d of %+v", e, n, first)
		}
	}
}

func TestMarks(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 200)
	for _, o := range []link.Owner{
		{Network: "net", ContainerID: "c1", IfName: "eth0"},
		{Network: long, ContainerID: "c1", IfName: "eth0"},
		{Network: "net", ContainerID: long, IfName: "eth0"},
		{Network: long, ContainerID: long, IfName: "averylongname15"},
		{Network: strings.Repeat("n", 32), ContainerID: strings.Repeat("f", 64), IfName: "averylongname15"},
	} {
		s := mark(o)
		if len(s) > maxComment || commentOf(comment(s)) != s || !marks(s, o) {
			t.Errorf("%q of %+v", s, o)
		}
		for _, other := range []link.Owner{
			{Network: o.Network + "y", ContainerID: o.ContainerID, IfName: o.IfName},
			{Network: o.Network, ContainerID: o.ContainerID + "y", IfName: o.IfName},
			{Network: o.Network, ContainerID: o.ContainerID, IfName: "eth1"},
		} {
			if marks(s, other) {
				t.Errorf("%q is taken for %+v's", s, other)
			}
		}
		if !marks(s, link.Owner{ContainerID: o.ContainerID, IfName: o.IfName}) {
			t.Errorf("%q is not found without the network", s)
		}
		if !stale(s, o.Network, nil) || stale(s, o.Network+"y", nil) || stale(s, o.Network, []types.GCAttachment{{ContainerID: o.ContainerID, IfName: o.IfName}}) {
			t.Errorf("%q: stale", s)
		}
	}
	for _, s := range []string{"", "cni:", "cni:a", "cni:a:b", "cni:a:b:c:d", "docker", "cni-a:b:c"} {
		if _, ok := parseMark(s); ok || stale(s, "a", nil) {
			t.Errorf("%q is taken for ours", s)
		}
	}
}

func TestSetsOfSubnetsHaveTheirNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"near4_0", "near4_24", "near4_32", "hairpin6_128", "hairpin4_8"} {
		if s, ok := parseSubnets(name); !ok || s.String() != name {
			t.Errorf("%q is read as %v, %v", name, s, ok)
		}
	}
	for _, name := range []string{"", "near4", "near4_", "near4_33", "near4_-1", "near4_024", "near6_129", "near5_1", "ports4_1", "near4_24x"} {
		if s, ok := parseSubnets(name); ok {
			t.Errorf("%q is read as %v", name, s)
		}
	}
}
