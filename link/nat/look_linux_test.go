package nat_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cnikit/cnikit/link/nat"
	"github.com/cnikit/cnikit/netconf"
	"github.com/containernetworking/cni/pkg/types"
)

// replaced puts another rule in the place of the first of a chain, under its comment.
func replaced(chain, by string) string {
	return `H=$(nft -a list chain inet cnikit ` + chain + ` | grep 'comment "v1' | head -1)
		C=$(echo "$H" | sed 's/.*comment \("[^"]*"\).*/\1/'); nft replace rule inet cnikit ` + chain + ` handle ${H##*handle } ` + by + ` comment "$C"`
}

// A table that sleeps, and a rule that does something else under the comment of ours, passed CHECK, and Ensure and ADD left
// them. So did a chain at another hook, or with a policy that drops, which Ensure and ADD left.
func TestVerifyAndEnsureSeeWhatACommentHides(t *testing.T) {
	for damage, words := range map[string][]string{
		"nft add table inet cnikit '{ flags dormant; }'":                            {"table cnikit", "dormant"},
		replaced("postrouting", "accept"):                                           {"chain postrouting", "another rule", "to a mapped port"},
		replaced("hostports", "ip6 daddr ::2 return"):                               {"chain hostports", "another rule", "::1"},
		replaced("prerouting", "fib daddr type local counter jump hostports"):       {"chain prerouting", "another rule"},
		replaced("prerouting", "fib daddr type != local jump hostports"):            {"chain prerouting", "another rule"},
		replaced("hairpin", "meta mark set meta mark and 0xffffdffe"):               {"chain hairpin", "another rule"},
		replaced("outgoing", "ip saddr . ip daddr and 255.255.255.0 != @near4_24"):  {"chain outgoing", "another rule"},
		"nft add chain inet cnikit postrouting '{ policy drop; }'":                  {"chain postrouting", "drops"},
		"nft delete chain inet cnikit loopback; nft add chain inet cnikit loopback": {"chain loopback", "priority -300"},
		"nft delete map inet cnikit singles4":                                       {"singles4", "missing"},
		"nft flush chain inet cnikit output; nft delete chain inet cnikit output; nft add chain inet cnikit output '{ type nat hook output priority -90; }'": {"chain output", "priority -90"},
	} {
		t.Run(words[0]+" "+words[1], func(t *testing.T) {
			l := newLab(t)
			a, b := l.container(2), l.container(3)
			serve(t, l.client, "tcp", 80, "client")
			serve(t, a.NS, "tcp", 80, "a")
			p, m := portMap("tcp:8080:80"), nat.Masquerade{}
			repairs := map[string]func() error{
				"Ensure":            func() error { return p.Ensure(t.Context(), l.host, a.Owner, a.addrs) },
				"Masquerade.Ensure": func() error { return m.Ensure(t.Context(), l.host, a.Owner, a.addrs) },
				"ADD of another": func() error {
					return errors.Join(m.Create(t.Context(), l.host, b.Owner, b.addrs), m.Delete(t.Context(), l.host, b.Owner, b.addrs))
				},
			}
			create(t, l, a, p)
			masquerade(t, l, a)
			for name, repair := range repairs {
				before := shell(t, "nft list table inet cnikit")
				shell(t, damage)
				if shell(t, "nft list table inet cnikit") == before {
					t.Fatal("nothing is damaged")
				}
				for _, err := range []error{p.Verify(t.Context(), l.host, a.Owner, a.addrs), m.Verify(t.Context(), l.host, a.Owner, a.addrs)} {
					if !errors.Is(err, netconf.ErrDifferent) || !contains(err.Error(), words[0]) || !contains(err.Error(), words[1]) || !contains(err.Error(), words[len(words)-1]) {
						t.Errorf("CHECK: %v", err)
					}
				}
				if err := repair(); err != nil {
					t.Errorf("%s: %v", name, err)
				}
				if err := errors.Join(p.Verify(t.Context(), l.host, a.Owner, a.addrs), m.Verify(t.Context(), l.host, a.Owner, a.addrs)); err != nil {
					t.Errorf("after %s: %v", name, err)
				}
				answers(t, l.client, "tcp", "192.0.2.1:8080", "a 192.0.2.9")
				answers(t, a.NS, "tcp", "192.0.2.9:80", "client 192.0.2.1")
			}
		})
	}
}

// An expression with more than ours, as the flags behind a masquerade, is another rule.
func TestARuleWithMoreThanOursIsAnother(t *testing.T) {
	l := newLab(t)
	a := l.container(2)
	masquerade(t, l, a)
	m := nat.Masquerade{}
	shell(t, `H=$(nft -a list chain inet cnikit outgoing | grep masquerade); C=$(echo "$H" | sed 's/.*comment \("[^"]*"\).*/\1/')
		nft replace rule inet cnikit outgoing handle ${H##*handle } masquerade random comment "$C"`)
	if err := m.Verify(t.Context(), l.host, a.Owner, a.addrs); !errors.Is(err, netconf.ErrDifferent) || !contains(err.Error(), "another rule") {
		t.Errorf("CHECK: %v", err)
	}
	if err := m.Ensure(t.Context(), l.host, a.Owner, a.addrs); err != nil {
		t.Error(err)
	}
	if err := m.Verify(t.Context(), l.host, a.Owner, a.addrs); err != nil {
		t.Error(err)
	}
}

// A chain of somebody's in our table is his: it neither makes CHECK fail nor each ADD begin anew, and stays.
func TestAChainOfAnotherInTheTableStays(t *testing.T) {
	l := newLab(t)
	a := l.container(2)
	create(t, l, a, portMap("tcp:8080:80"))
	shell(t, "nft add chain inet cnikit his; nft add rule inet cnikit his counter")
	masquerade(t, l, a)
	create(t, l, l.container(3), portMap("tcp:8081:80"))
	if have := shell(t, "nft list chain inet cnikit his"); !contains(have, "counter") {
		t.Error(have)
	}
}

// A set or map of somebody's under one of our names is named by ADD, which changes nothing, and by CHECK; DEL and GC, which
// failed for ever, take away what is ours elsewhere and leave it.
func TestASetOfAnotherIsNamedAndDoesNotStopDelete(t *testing.T) {
	for name, as := range map[string]string{
		"ports4":      "map inet cnikit ports4 { type ipv4_addr : verdict; elements = { 192.0.2.7 comment \"cni:net:c2:eth0\" : drop }; }",
		"ports6":      "set inet cnikit ports6 { type inet_proto . inet_service; }",
		"addrports4":  "map inet cnikit addrports4 { type ipv4_addr . inet_proto . inet_service : ipv4_addr . inet_service; flags interval; }",
		"singles4":    "map inet cnikit singles4 { type ipv4_addr : inet_service; }",
		"sources4":    "set inet cnikit sources4 { type ether_addr; }",
		"sources6":    "set inet cnikit sources6 { type ipv6_addr; flags interval; }",
		"further4":    "set inet cnikit further4 { type ipv4_addr; }",
		"near4_24":    "set inet cnikit near4_24 { type ipv6_addr; }",
		"hairpin4_24": "set inet cnikit hairpin4_24 { type ipv4_addr . ipv4_addr; timeout 1h; }",
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			a, b := l.container(2), l.container(3)
			p, m := portMap("tcp:8080:80", "tcp:8080:80@192.0.2.1"), nat.Masquerade{}
			create(t, l, a, p)
			masquerade(t, l, a)
			kind := as[:3]
			shell(t, "F=$(mktemp); nft list table inet cnikit | grep -v '@"+name+" ' > $F; nft flush ruleset; nft -f $F; rm $F; nft delete "+kind+" inet cnikit "+name+"; nft 'add "+as+"'")
			theirs := shell(t, "nft list "+kind+" inet cnikit "+name)
			for _, err := range []error{p.Create(t.Context(), l.host, b.Owner, b.addrs), m.Create(t.Context(), l.host, b.Owner, b.addrs), m.Ensure(t.Context(), l.host, a.Owner, a.addrs)} {
				if netconf.Code(err) != netconf.CodeBadStore || !netconf.IsUnchanged(err) || !contains(err.Error(), name) || !contains(err.Error(), "delete it") {
					t.Errorf("%s: ADD: %v", name, err)
				}
			}
			if err := p.Verify(t.Context(), l.host, a.Owner, a.addrs); !errors.Is(err, netconf.ErrDifferent) || !contains(err.Error(), "set "+name) {
				t.Errorf("%s: CHECK: %v", name, err)
			}
			if err := nat.Probe(t.Context(), l.host); !contains(fmt.Sprint(err), name) || !contains(err.Error(), "delete it") {
				t.Errorf("%s: STATUS: %v", name, err)
			}
			for what, err := range map[string]error{
				"a DEL of nothing":             p.Delete(t.Context(), l.host, b.Owner, b.addrs),
				"a masquerade's of nothing":    m.Delete(t.Context(), l.host, b.Owner, b.addrs),
				"DEL":                          p.Delete(t.Context(), l.host, a.Owner, a.addrs),
				"DEL by the owner":             nat.PortMap{}.Delete(t.Context(), l.host, a.Owner, nil),
				"a masquerade's":               m.Delete(t.Context(), l.host, a.Owner, a.addrs),
				"a masquerade's, by the owner": m.Delete(t.Context(), l.host, a.Owner, nil),
				"GC":                           nat.PortMap{}.Collect(t.Context(), l.host, "net", []types.GCAttachment{}),
				"a masquerade's GC":            m.Collect(t.Context(), l.host, "net", []types.GCAttachment{}),
			} {
				if err != nil {
					t.Errorf("%s: %s: %v", name, what, err)
				}
			}
			if now := shell(t, "nft list "+kind+" inet cnikit "+name); now != theirs {
				t.Errorf("%s is changed:\n%s\nit was\n%s", name, now, theirs)
			}
			shell(t, "nft flush "+kind+" inet cnikit "+name)
			if left := elements(t); left != "" {
				t.Errorf("%s: left:\n%s", name, left)
			}
		})
	}
}
