package link_test

import (
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
)

// TestOwnerTable: the numbers of attachments differ, lie where nobody chooses, and those of one do not meet another's.
func TestOwnerTable(t *testing.T) {
	t.Parallel()
	seen := map[int]string{}
	for _, id := range []string{"a", "b", "ab"} {
		for _, ifname := range []string{"eth0", "net1", "net2"} {
			for i := range 32 {
				table := link.Owner{Network: "n", ContainerID: id, IfName: ifname}.Table(i)
				if other := seen[table]; other != "" || table < 1<<30 || int64(table) >= 1<<31 {
					t.Errorf("%s %s %d: table %d, as %q", id, ifname, i, table, other)
				}
				seen[table] = id + ifname
			}
		}
	}
}

type sourcePlan struct {
	name  string
	step  link.SourceRouting
	ips   string
	main  []string // DST or DST GATEWAY
	want  []string // the plan, a line each; T0, T1 are the tables
	words string   // of an error
}

// sourcePlans say which table a route goes into.
func sourcePlans() []sourcePlan {
	gw := netip.MustParseAddr
	return []sourcePlan{
		{name: "one address", ips: `{"address":"10.2.2.2/24","gateway":"10.2.2.1"}`, main: []string{"10.2.2.0/24", "198.51.100.0/24 10.2.2.1"},
			want: []string{"rule from 10.2.2.2/32 lookup T0", "route 10.2.2.0/24 table T0", "route 198.51.100.0/24 via 10.2.2.1 table T0", "route default via 10.2.2.1 table T0",
				"moved 10.2.2.0/24", "moved 198.51.100.0/24 via 10.2.2.1"}},
		{name: "its default route is there", ips: `{"address":"10.2.2.2/24","gateway":"10.2.2.1"}`, main: []string{"0.0.0.0/0 10.2.2.1", "10.2.2.0/24"},
			want: []string{"rule from 10.2.2.2/32 lookup T0", "route 10.2.2.0/24 table T0", "route default via 10.2.2.1 table T0", "moved default via 10.2.2.1", "moved 10.2.2.0/24"}},
		{name: "another gateway", ips: `{"address":"10.2.2.2/24","gateway":"10.2.2.1"}`, main: []string{"0.0.0.0/0 10.2.2.1", "10.2.2.0/24"},
			step: link.SourceRouting{Gateways: []netip.Addr{gw("10.2.2.9"), gw("fe80::1")}},
			want: []string{"rule from 10.2.2.2/32 lookup T0", "route 10.2.2.0/24 table T0", "route default via 10.2.2.9 table T0", "moved default via 10.2.2.1", "moved 10.2.2.0/24"}},
		{name: "both families in one table", ips: `{"address":"10.2.2.2/24","gateway":"10.2.2.1"},{"address":"fd02::2/64","gateway":"fd02::1"}`,
			main: []string{"10.2.2.0/24", "fd02::/64", "fe80::/64"},
			want: []string{"rule from 10.2.2.2/32 lookup T0", "rule from fd02::2/128 lookup T0", "route 10.2.2.0/24 table T0", "route fd02::/64 table T0",
				"route default via 10.2.2.1 table T0", "route default ::/0 via fd02::1 table T0", "moved 10.2.2.0/24", "moved fd02::/64"}},
		{name: "two gateways", ips: `{"address":"10.2.2.2/24","gateway":"10.2.2.1"},{"address":"10.3.3.3/24","gateway":"10.3.3.1"},{"address":"10.3.3.4/24","gateway":"10.3.3.1"}`,
			main: []string{"10.2.2.0/24", "10.3.3.0/24", "198.51.100.0/24 10.3.3.1"},
			want: []string{"rule from 10.2.2.2/32 lookup T0", "rule from 10.3.3.3/32 lookup T1", "rule from 10.3.3.4/32 lookup T1",
				"route 10.2.2.0/24 table T0", "route 10.2.2.0/24 table T1", "route 10.3.3.0/24 table T0", "route 10.3.3.0/24 table T1",
				"route 198.51.100.0/24 via 10.3.3.1 table T1", "route default via 10.2.2.1 table T0", "route default via 10.3.3.1 table T1",
				"moved 10.2.2.0/24", "moved 10.3.3.0/24", "moved 198.51.100.0/24 via 10.3.3.1"}},
		{name: "a gateway beyond the subnet", ips: `{"address":"10.2.2.2/32","gateway":"169.254.1.1"}`,
			want: []string{"rule from 10.2.2.2/32 lookup T0", "route default via 169.254.1.1 onlink table T0"}},
		{name: "a table that has its routes", step: link.SourceRouting{Table: 7}, ips: `{"address":"10.2.2.2/24","gateway":"10.2.2.1"}`, main: []string{"10.2.2.0/24"},
			want: []string{"rule from 10.2.2.2/32 lookup 7"}},
		{name: "subnets kept", step: link.SourceRouting{KeepSubnets: true}, ips: `{"address":"10.2.2.2/24","gateway":"10.2.2.1"},{"address":"10.4.4.2/24"}`,
			main: []string{"10.2.2.0/24", "0.0.0.0/0 10.2.2.1"},
			want: []string{"rule from 10.2.2.2/32 lookup T0", "rule from 10.4.4.2/32 lookup T0", "route 10.2.2.0/24 table T0", "route 10.4.4.0/24 table T0 scope 253",
				"route default via 10.2.2.1 table T0", "moved default via 10.2.2.1", "kept 10.4.4.0/24 src 10.4.4.2 scope 253"}},
		{name: "no address", words: "no address"},
		{name: "two gateways of a family", step: link.SourceRouting{Gateways: []netip.Addr{gw("10.2.2.9"), gw("10.2.2.8")}}, ips: `{"address":"10.2.2.2/24"}`, words: "10.2.2.8"},
		{name: "a gateway that is none", step: link.SourceRouting{Gateways: []netip.Addr{gw("::")}}, ips: `{"address":"10.2.2.2/24"}`, words: "::"},
		{name: "a table that is none", step: link.SourceRouting{Table: -1}, ips: `{"address":"10.2.2.2/24"}`, words: "table -1"},
	}
}

func TestSourcePlan(t *testing.T) {
	t.Parallel()
	o := link.Owner{Network: "n", ContainerID: "c", IfName: "net1"}
	gw := netip.MustParseAddr
	for _, test := range sourcePlans() {
		result := parse(t, `"ips":[`+test.ips+`]`)
		var main []link.MovedRoute
		for _, text := range test.main {
			dst, gateway, _ := strings.Cut(text, " ")
			m := link.MovedRoute{Route: link.Route{Dst: prefix(dst)}, Protocol: 2}
			if gateway != "" {
				m.Gateway = gw(gateway)
			}
			main = append(main, m)
		}
		p, err := test.step.Plan(o, result.IPs, main)
		if test.words != "" || err != nil {
			if err == nil || test.words == "" || netconf.Code(err) != netconf.CodeInvalidNetworkConfig || !strings.Contains(err.Error(), test.words) {
				t.Errorf("%s: %v", test.name, err)
			}
			continue
		}
		if got := lines(o, p); got != strings.Join(test.want, "\n") {
			t.Errorf("%s:\n%s\nexpected\n%s", test.name, got, strings.Join(test.want, "\n"))
		}
	}
}

func lines(o link.Owner, p *link.SourcePlan) string {
	var out []string
	for _, r := range p.Rules {
		out = append(out, "rule "+strings.TrimSuffix(r.String(), " priority 30000"))
	}
	for _, r := range p.Routes {
		out = append(out, "route "+r.String())
	}
	for _, r := range p.Moved {
		out = append(out, "moved "+r.String())
	}
	for _, r := range p.Kept {
		out = append(out, "kept "+r.String())
	}
	text := strings.Join(out, "\n")
	for i, name := range []string{"T0", "T1"} {
		text = strings.ReplaceAll(text, strconv.Itoa(o.Table(i)), name)
	}
	return text
}

func prefix(text string) netip.Prefix { return netip.MustParsePrefix(text) }
