package nat_test

import (
	"errors"
	"fmt"
	"net/netip"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/link/nat"
	"github.com/cnikit/cnikit/netconf"
	"github.com/containernetworking/cni/pkg/types"
)

// party is one of several attachments with the address of one container.
type party struct {
	link.Owner
	ports nat.PortMap
}

// parties are attachments of three networks; one of them has a longer subnet.
func parties(a *container) (all []party, addrs [][]netip.Prefix) {
	for i, network := range []string{"one", "two", "three"} {
		o := link.Owner{Network: network, ContainerID: "c" + network, IfName: "eth0"}
		all = append(all, party{o, portMap(fmt.Sprintf("tcp:%d:80", 8081+i))})
		addrs = append(addrs, a.addrs)
	}
	addrs[2] = prefixes("10.1.0.2/25", "fd00:1::2/64")
	return all, addrs
}

// goes takes all of a party's away, in one of the ways that there are.
func (p party) goes(t *testing.T, l *lab, way string, addrs []netip.Prefix) {
	t.Helper()
	var errs []error
	switch way {
	case "by address":
		errs = []error{p.ports.Delete(t.Context(), l.host, p.Owner, addrs), nat.Masquerade{}.Delete(t.Context(), l.host, p.Owner, addrs)}
	case "by owner":
		errs = []error{nat.PortMap{}.Delete(t.Context(), l.host, p.Owner, nil), nat.Masquerade{}.Delete(t.Context(), l.host, p.Owner, nil)}
	case "by GC":
		none := []types.GCAttachment{}
		errs = []error{nat.PortMap{}.Collect(t.Context(), l.host, p.Network, none), nat.Masquerade{}.Collect(t.Context(), l.host, p.Network, none)}
	}
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
}

// What is made for an address that attachments of several networks have lasts until the last of them is gone, in whatever
// order and way they go, and not longer. DEL of one took it from all.
func TestAnAddressOfSeveralNetworksKeepsItsTranslation(t *testing.T) {
	l := newLab(t)
	a := l.container(2)
	serve(t, l.client, "tcp", 80, "client")
	serve(t, a.NS, "tcp", 80, "a")
	all, addrs := parties(a)
	m := nat.Masquerade{}
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		for _, way := range []string{"by address", "by owner", "by GC"} {
			for i, p := range all {
				err := errors.Join(p.ports.Create(t.Context(), l.host, p.Owner, addrs[i]), m.Create(t.Context(), l.host, p.Owner, addrs[i]))
				if err != nil {
					t.Fatal(err)
				}
			}
			for n, i := range order {
				for _, j := range order[n:] {
					live := all[j]
					err := errors.Join(live.ports.Verify(t.Context(), l.host, live.Owner, addrs[j]), m.Verify(t.Context(), l.host, live.Owner, addrs[j]))
					if err != nil {
						t.Errorf("%v %s: %q: %v", order, way, live.Network, err)
					}
					answers(t, nil, "tcp", fmt.Sprintf("127.0.0.1:%d", 8081+j), "a 10.1.0.1") // by the set for hairpins
				}
				answers(t, a.NS, "tcp", "192.0.2.9:80", "client 192.0.2.1")
				answers(t, a.NS, "tcp", "[2001:db8::9]:80", "client 2001:db8::1")
				all[i].goes(t, l, way, addrs[i])
				all[i].goes(t, l, way, addrs[i]) // twice, as runtimes do
			}
			if left := elements(t); left != "" || t.Failed() { // what does not answer is waited for
				t.Fatalf("%v %s: left:\n%s", order, way, left)
			}
		}
	}
	silent(t, a.NS, "tcp", "192.0.2.9:80")
}

// An ADD that fails, and is rolled back, takes nothing of an attachment of another network with the same address.
func TestRollbackKeepsTheTranslationOfAnother(t *testing.T) {
	l := newLab(t)
	a := l.container(2)
	serve(t, l.client, "tcp", 80, "client")
	serve(t, a.NS, "tcp", 80, "a")
	all, addrs := parties(a)
	one, two := all[0], all[1]
	create(t, l, &container{a.NS, one.Owner, a.addrs}, one.ports)
	masquerade(t, l, &container{a.NS, one.Owner, a.addrs})
	before := elements(t)
	create(t, l, &container{a.NS, two.Owner, a.addrs}, two.ports)
	masquerade(t, l, &container{a.NS, two.Owner, a.addrs})
	two.goes(t, l, "by address", addrs[1])
	if now := elements(t); now != before {
		t.Errorf("before\n%s\nafter\n%s", before, now)
	}
	taken := portMap("tcp:9999:80", "tcp:8081:80").Create(t.Context(), l.host, two.Owner, a.addrs) // refused, for the first has a port
	if netconf.Code(taken) != netconf.CodeExists || !contains(taken.Error(), "cni:one:cone:eth0") {
		t.Error(taken)
	}
	two.goes(t, l, "by owner", nil)
	if now := elements(t); now != before {
		t.Errorf("before\n%s\nafter\n%s", before, now)
	}
	answers(t, a.NS, "tcp", "192.0.2.9:80", "client 192.0.2.1")
	answers(t, nil, "tcp", "127.0.0.1:8081", "a 10.1.0.1")
}

// Somebody takes elements away by hand: CHECK says so to whom it concerns, each one's Ensure repairs, and what the others have
// goes with them.
func TestSharedElementsAreRepaired(t *testing.T) {
	l := newLab(t)
	a := l.container(2)
	serve(t, l.client, "tcp", 80, "client")
	all, addrs := parties(a)
	m := nat.Masquerade{}
	for _, damage := range []string{
		"nft delete element inet cnikit sources4 '{ 10.1.0.2 }'",
		"nft delete element inet cnikit further4 '{ 10.1.0.2 . 0.0.0.0 . 1 . 1 }'",
		"nft flush set inet cnikit further4",
		"nft flush table inet cnikit; nft delete set inet cnikit further4; nft delete set inet cnikit sources4",
		"nft delete element inet cnikit sources4 '{ 10.1.0.2 }'; nft add element inet cnikit sources4 '{ 10.1.0.2 }'", // nobody's
	} {
		for _, repairs := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 0, 2}} {
			for i, p := range all {
				if err := m.Create(t.Context(), l.host, p.Owner, addrs[i]); err != nil {
					t.Fatal(err)
				}
			}
			shell(t, damage)
			different := 0
			for i, p := range all {
				if errors.Is(m.Verify(t.Context(), l.host, p.Owner, addrs[i]), netconf.ErrDifferent) {
					different++
				}
			}
			if different == 0 {
				t.Errorf("%s: nobody's CHECK says so", damage)
			}
			for range 2 {
				for _, i := range repairs {
					if err := m.Ensure(t.Context(), l.host, all[i].Owner, addrs[i]); err != nil {
						t.Errorf("%s: %v", damage, err)
					}
				}
			}
			for n, i := range repairs {
				for _, j := range repairs[n:] {
					if err := m.Verify(t.Context(), l.host, all[j].Owner, addrs[j]); err != nil {
						t.Errorf("%s, repaired in the order %v: %v", damage, repairs, err)
					}
				}
				answers(t, a.NS, "tcp", "192.0.2.9:80", "client 192.0.2.1")
				all[i].goes(t, l, "by address", addrs[i])
			}
			if left := elements(t); left != "" {
				t.Fatalf("%s: left:\n%s", damage, left)
			}
		}
	}
}

// So does a DEL of all right after the damage: where the first's element is gone, also with its set, which a DEL that put
// the next owner there could not do. Of port mappings those of the others stayed.
func TestSharedElementsGoWithoutTheFirst(t *testing.T) {
	l := newLab(t)
	all, addrs := parties(l.container(2))
	for _, damage := range []string{
		"nft delete element inet cnikit sources4 '{ 10.1.0.2 }'; nft delete element inet cnikit hairpin4_8 '{ 10.1.0.2 . 127.0.0.0 }'",
		"nft flush table inet cnikit; nft delete set inet cnikit sources4; nft delete set inet cnikit hairpin4_8",
	} {
		for _, way := range []string{"by address", "by owner", "by GC"} {
			for i, p := range all {
				err := errors.Join((nat.Masquerade{}).Create(t.Context(), l.host, p.Owner, addrs[i]), p.ports.Create(t.Context(), l.host, p.Owner, addrs[i]))
				if err != nil {
					t.Fatal(err)
				}
			}
			shell(t, damage)
			for _, i := range []int{1, 0, 2} {
				all[i].goes(t, l, way, addrs[i])
			}
			if left := elements(t); left != "" {
				t.Fatalf("%s, %s: left:\n%s", damage, way, left)
			}
		}
	}
}
