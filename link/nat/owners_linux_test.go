package nat_test

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/link/nat"
	"github.com/cnikit/cnikit/netconf"
	"github.com/containernetworking/cni/pkg/types"
)

func contains(s, part string) bool { return strings.Contains(s, part) }

// A port of the host has one owner. A second is told who that is, and nothing is changed.
func TestSecondOwnerOfAPort(t *testing.T) {
	l := newLab(t)
	a, b := l.container(2), l.container(3)
	for _, c := range []struct {
		first, second string
		free          bool
	}{
		{"tcp:80:80", "tcp:80:80", false},
		{"tcp:80:80", "tcp:80:81", false},
		{"tcp:80:80", "tcp:80:80@192.0.2.1", false},
		{"tcp:80:80", "tcp:80:80@2001:db8::1", false},
		{"tcp:80:80", "tcp:80:80@0.0.0.0", false},
		{"tcp:80:80", "tcp:80:80@::", false},
		{"tcp:80:80@192.0.2.1", "tcp:80:80", false},
		{"tcp:80:80@2001:db8::1", "tcp:80:80", false},
		{"tcp:80:80@192.0.2.1", "tcp:80:80@0.0.0.0", false},
		{"tcp:80:80@192.0.2.1", "tcp:80:80@192.0.2.1", false},
		{"tcp:80:80@192.0.2.1", "tcp:80:80@::ffff:192.0.2.1", false},
		{"udp:80:80@192.0.2.1", "udp:80:80", false},
		{"tcp:80:80@192.0.2.1", "tcp:80:80@192.0.2.2", true},
		{"tcp:80:80@192.0.2.1", "tcp:80:80@2001:db8::1", true},
		{"tcp:80:80@192.0.2.1", "tcp:80:80@::", true},
		{"tcp:80:80@0.0.0.0", "tcp:80:80@::", true},
		{"tcp:80:80", "udp:80:80", true},
		{"tcp:80:80@192.0.2.1", "tcp:81:80", true},
	} {
		create(t, l, a, portMap(c.first))
		before := shell(t, "nft list ruleset")
		err := portMap("tcp:7:7", c.second).Create(t.Context(), l.host, b.Owner, b.addrs)
		switch {
		case c.free && err != nil:
			t.Errorf("%s, then %s: %v", c.first, c.second, err)
		case c.free:
		case err == nil || netconf.Code(err) != netconf.CodeExists || !netconf.IsUnchanged(err) || !contains(err.Error(), `"cni:net:c2:eth0"`):
			t.Errorf("%s, then %s: %v", c.first, c.second, err)
		case shell(t, "nft list ruleset") != before:
			t.Errorf("%s, then %s: the ruleset was changed", c.first, c.second)
		}
		err = portMap(c.second).Ensure(t.Context(), l.host, b.Owner, b.addrs)
		if c.free != (err == nil) {
			t.Errorf("%s, then %s: Ensure: %v", c.first, c.second, err)
		}
		shell(t, "nft delete table inet cnikit")
	}
}

// Who has a port already may have it twice: all of it and one address to another end.
func TestOwnPortsMayOverlap(t *testing.T) {
	l := newLab(t)
	a := l.container(2)
	serve(t, a.NS, "tcp", 80, "a")
	serve(t, a.NS, "tcp", 81, "a2")
	create(t, l, a, portMap("tcp:8080:80", "tcp:8080:81@192.0.2.1"))
	answers(t, l.client, "tcp", "192.0.2.1:8080", "a2 192.0.2.9")
	answers(t, l.client, "tcp", "[2001:db8::1]:8080", "a 2001:db8::9")
	answers(t, nil, "tcp", "127.0.0.1:8080", "a 10.1.0.1")
	create(t, l, l.container(3), portMap("tcp:9:80", "tcp:9:80", "tcp:9:80@::")) // the same twice
	if err := portMap("tcp:1:80", "tcp:1:81").Create(t.Context(), l.host, a.Owner, a.addrs); netconf.Code(err) != netconf.CodeInvalidNetworkConfig {
		t.Errorf("one port to two ends: %v", err)
	}
}

// A second Create of the same owner changes nothing and says so: its rollback would take the live one away.
func TestCreateTwice(t *testing.T) {
	l := newLab(t)
	a := l.container(2)
	create(t, l, a, portMap("tcp:8080:80"))
	masquerade(t, l, a)
	before := shell(t, "nft list ruleset")
	for name, err := range map[string]error{
		"the same":       portMap("tcp:8080:80").Create(t.Context(), l.host, a.Owner, a.addrs),
		"more":           portMap("tcp:8080:80", "tcp:1:1").Create(t.Context(), l.host, a.Owner, a.addrs),
		"other mappings": portMap("tcp:2:2").Create(t.Context(), l.host, a.Owner, a.addrs), // by the hairpin elements
		"masquerade":     nat.Masquerade{}.Create(t.Context(), l.host, a.Owner, a.addrs),
	} {
		if !errors.Is(err, netconf.ErrExists) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if now := shell(t, "nft list ruleset"); now != before {
		t.Errorf("changed:\n%s", now)
	}
}

// A hundred at once: one table, each its port; of a hundred that want the same port one gets it.
func TestHundredAtOnce(t *testing.T) {
	l := newLab(t)
	a := l.container(2)
	serve(t, a.NS, "tcp", 80, "a")
	const n = 100
	at := func(i int) link.Owner {
		return link.Owner{Network: "net", ContainerID: strings.Repeat("x", i+1), IfName: "eth0"}
	}
	together := func(f func(i int) error) (errs [n]error) {
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() { errs[i] = f(i) })
		}
		wg.Wait()
		return errs
	}
	port := func(i int) nat.PortMap {
		p := portMap("tcp:8000:80")
		p.Mappings[0].HostPort += i
		return p
	}
	for i, err := range together(func(i int) error { return port(i).Create(t.Context(), l.host, at(i), a.addrs) }) {
		if err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
	if have := strings.Count(elements(t), " : "); have != 2*n {
		t.Errorf("%d ports, expected %d", have, 2*n)
	}
	answers(t, l.client, "tcp", "192.0.2.1:8099", "a 192.0.2.9")
	for i, err := range together(func(i int) error { return port(i).Delete(t.Context(), l.host, at(i), a.addrs) }) {
		if err != nil {
			t.Errorf("%d: %v", i, err)
		}
	}
	if left := elements(t); left != "" {
		t.Errorf("left: %s", left)
	}
	winners := 0
	for i, err := range together(func(i int) error {
		p := portMap("tcp:8000:80")
		if i%2 == 0 {
			p = portMap("tcp:8000:80@192.0.2.1")
		}
		return p.Create(t.Context(), l.host, at(i), a.addrs)
	}) {
		switch {
		case err == nil:
			winners++
		case netconf.Code(err) != netconf.CodeExists || !contains(err.Error(), "cni:net:"):
			t.Errorf("%d: %v", i, err)
		}
	}
	if winners != 1 {
		t.Errorf("%d owners of one port\n%s", winners, elements(t))
	}
}

func TestCollect(t *testing.T) {
	l := newLab(t)
	a, b, c := l.container(2), l.container(3), l.container(4)
	c.Network = "another"
	for i, x := range []*container{a, b, c} {
		p := portMap("tcp:8080:80", "udp:53:53@192.0.2.1")
		p.Mappings[0].HostPort += i
		p.Mappings[1].HostPort += i
		create(t, l, x, p)
		masquerade(t, l, x)
	}
	live := []types.GCAttachment{{ContainerID: "c3", IfName: "eth0"}, {ContainerID: "c2", IfName: "eth1"}}
	for _, list := range [][]types.GCAttachment{nil, live} {
		for name, err := range map[string]error{
			"ports":      nat.PortMap{}.Collect(t.Context(), l.host, "net", list),
			"masquerade": nat.Masquerade{}.Collect(t.Context(), l.host, "net", list),
		} {
			if list == nil && netconf.Code(err) != netconf.CodeInvalidNetworkConfig || list != nil && err != nil {
				t.Errorf("%s: list %v: %v", name, list, err)
			}
		}
		if have := elements(t); contains(have, "cni:net:c2:") != (list == nil) || !contains(have, "cni:net:c3:") || !contains(have, "cni:another:c4:") {
			t.Errorf("after list %v:\n%s", list, have)
		}
	}
	if err := (nat.PortMap{}).Collect(t.Context(), l.host, "net", []types.GCAttachment{}); err != nil {
		t.Error(err)
	}
	if have := elements(t); contains(have, "8081") || !contains(have, "8082") {
		t.Errorf("an empty list means that all is stale:\n%s", have)
	}
}

// A name of 200 bytes makes a comment that nft would not load again: it is hashed there, and found by its name.
func TestLongNames(t *testing.T) {
	l := newLab(t)
	a, b := l.container(2), l.container(3)
	a.Network, a.ContainerID = strings.Repeat("n", 200), strings.Repeat("c", 200)
	b.Network, b.ContainerID = a.Network, strings.Repeat("c", 199)+"d"
	create(t, l, a, portMap("tcp:8080:80"))
	create(t, l, b, portMap("tcp:8081:80"))
	shell(t, "f=$(mktemp); nft list ruleset > $f; nft flush ruleset; nft -f $f; rm $f")
	if err := (nat.PortMap{}).Collect(t.Context(), l.host, a.Network, []types.GCAttachment{{ContainerID: b.ContainerID, IfName: "eth0"}}); err != nil {
		t.Fatal(err)
	}
	if have := elements(t); contains(have, "8080") || !contains(have, "8081") {
		t.Errorf("elements\n%s", have)
	}
	if err := (nat.PortMap{}).Delete(t.Context(), l.host, b.Owner, nil); err != nil {
		t.Fatal(err)
	}
	if left := elements(t); left != "" {
		t.Errorf("left: %s", left)
	}
}

// How many ports of single addresses there are is counted, so that one of all addresses need not look at all of them. The
// count follows each change, and one that somebody spoiled costs a look and refuses nobody.
func TestSinglesAreCounted(t *testing.T) {
	l := newLab(t)
	a, b := l.container(2), l.container(3)
	counts := func() string {
		return shell(t, "nft list map inet cnikit singles4 | grep -o 'tcp . 80 : [0-9]*' || true")
	}
	two, one := portMap("tcp:80:80@192.0.2.1", "tcp:80:80@127.0.0.1"), portMap("tcp:80:80@127.0.0.2")
	create(t, l, a, two)
	create(t, l, b, one)
	if have := counts(); have != "tcp . 80 : 3\n" {
		t.Errorf("count %q", have)
	}
	if err := two.Ensure(t.Context(), l.host, a.Owner, a.addrs); err != nil {
		t.Fatal(err)
	}
	if err := portMap("tcp:80:81@192.0.2.1").Ensure(t.Context(), l.host, a.Owner, a.addrs); err != nil { // one less, one changed
		t.Fatal(err)
	}
	if have := counts(); have != "tcp . 80 : 2\n" {
		t.Errorf("count after Ensure %q", have)
	}
	if err := one.Delete(t.Context(), l.host, b.Owner, b.addrs); err != nil {
		t.Fatal(err)
	}
	if err := (nat.PortMap{}).Collect(t.Context(), l.host, "net", []types.GCAttachment{}); err != nil {
		t.Fatal(err)
	}
	if have := counts(); have != "" {
		t.Errorf("count of none %q", have)
	}
	shell(t, "nft add element inet cnikit singles4 '{ tcp . 80 : 7 }'")
	create(t, l, a, portMap("tcp:80:80"))
}
