package skeltest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// sysctl is one of net.ipv4.conf.LINK or net.ipv6.conf.LINK, and what the kernel gives a new link.
type sysctl struct {
	name  string
	usual int32
}

// The sysctls of a link, in the order of linux/ip.h and linux/ipv6.h, which is that of the arrays in a message about it.
// No name: left out.
var (
	sysctls4 = []sysctl{
		{"forwarding", 0}, {"mc_forwarding", 0}, {"proxy_arp", 0}, {"accept_redirects", 1}, {"secure_redirects", 1},
		{"send_redirects", 1}, {"shared_media", 1}, {"rp_filter", 0}, {"accept_source_route", 1}, {"bootp_relay", 0},
		{"log_martians", 0}, {"tag", 0}, {"arp_filter", 0}, {"medium_id", 0}, {"disable_xfrm", 0}, {"disable_policy", 0},
		{"force_igmp_version", 0}, {"arp_announce", 0}, {"arp_ignore", 0}, {"promote_secondaries", 0}, {"arp_accept", 0},
		{"arp_notify", 0}, {"accept_local", 0}, {"src_valid_mark", 0}, {"proxy_arp_pvlan", 0}, {"route_localnet", 0},
		{"igmpv2_unsolicited_report_interval", 10000}, {"igmpv3_unsolicited_report_interval", 1000},
		{"ignore_routes_with_linkdown", 0}, {"drop_unicast_in_l2_multicast", 0}, {"drop_gratuitous_arp", 0},
		{"bc_forwarding", 0}, {"arp_evict_nocarrier", 1},
	}
	sysctls6 = []sysctl{
		{"forwarding", 0}, {"hop_limit", 64}, {"", 0}, // mtu follows that of the link
		{"accept_ra", 1}, {"accept_redirects", 1}, {"autoconf", 1}, {"dad_transmits", 1}, {"router_solicitations", -1},
		{"router_solicitation_interval", 4000}, {"router_solicitation_delay", 1000}, {"use_tempaddr", 0},
		{"temp_valid_lft", 604800}, {"temp_prefered_lft", 86400}, {"regen_max_retry", 3}, {"max_desync_factor", 600},
		{"max_addresses", 16}, {"force_mld_version", 0}, {"accept_ra_defrtr", 1}, {"accept_ra_pinfo", 1},
		{"accept_ra_rtr_pref", 1}, {"router_probe_interval", 60000}, {"accept_ra_rt_info_max_plen", 0}, {"proxy_ndp", 0},
		{"optimistic_dad", 0}, {"accept_source_route", 0}, {"mc_forwarding", 0}, {"disable_ipv6", 0}, {"accept_dad", 1},
		{"force_tllao", 0}, {"ndisc_notify", 0}, {"mldv1_unsolicited_report_interval", 10000},
		{"mldv2_unsolicited_report_interval", 1000}, {"suppress_frag_ndisc", 1}, {"accept_ra_from_local", 0},
		{"use_optimistic", 0}, {"accept_ra_mtu", 1}, {"", 0}, // stable_secret is no number: the array has 0
		{"use_oif_addrs_only", 0}, {"accept_ra_min_hop_limit", 1}, {"ignore_routes_with_linkdown", 0},
		{"drop_unicast_in_l2_multicast", 0}, {"drop_unsolicited_na", 0}, {"keep_addr_on_down", 0},
		{"router_solicitation_max_interval", 3600000}, {"seg6_enabled", 0}, {"seg6_require_hmac", 0}, {"enhanced_dad", 1},
		{"", 0}, // addr_gen_mode is in what ip says of the link
		{"disable_policy", 0}, {"accept_ra_rt_info_min_plen", 0}, {"ndisc_tclass", 0}, {"rpl_seg_enabled", 0},
		{"ra_defrtr_metric", 1024}, {"ioam6_enabled", 0}, {"ioam6_id", 65535}, {"ioam6_id_wide", -1},
		{"ndisc_evict_nocarrier", 1}, {"accept_untracked_na", 0}, {"accept_ra_min_lft", 0}, {"force_forwarding", 0},
	}
)

// The attributes of a link that have the arrays: linux/if_link.h.
const (
	iflaInetConf  = 1
	iflaInet6Conf = 2
	skipStats     = 1 << 3 // linux/rtnetlink.h: RTEXT_FILTER_SKIP_STATS
)

// sysctls lists those of each link that are not as the kernel gives them to a new one: one dump of the links has the
// hundred numbers of each, where to read the files would take longer than all the rest. What is of the namespace, "all" and
// "default", is left out, and so is forwarding where it is as in "all": there it is written to every link at once, by
// plugins that rightly leave it on, for others.
func sysctls() (s Snapshot, err error) {
	request := nl.NewNetlinkRequest(unix.RTM_GETLINK, unix.NLM_F_DUMP)
	request.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
	request.AddData(nl.NewRtAttr(unix.IFLA_EXT_MASK, nl.Uint32Attr(skipStats)))
	all, err := request.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWLINK)
	for again := 0; errors.Is(err, netlink.ErrDumpInterrupted) && again < 10; again++ {
		all, err = request.Execute(unix.NETLINK_ROUTE, unix.RTM_NEWLINK)
	}
	if err != nil {
		return nil, fmt.Errorf("list links: %w", err)
	}
	forwarding := map[string]int32{}
	for _, family := range []string{"ipv4", "ipv6"} {
		text, err := os.ReadFile("/proc/sys/net/" + family + "/conf/all/forwarding")
		if err != nil && !errors.Is(err, os.ErrNotExist) { // a kernel without IPv6
			return nil, err
		}
		if strings.TrimSpace(string(text)) == "1" {
			forwarding[family] = 1
		}
	}
	for _, m := range all {
		attrs, err := nl.ParseRouteAttr(m[unix.SizeofIfInfomsg:])
		if err != nil {
			return nil, fmt.Errorf("a link: %w", err)
		}
		name := ""
		for _, attr := range attrs {
			if attr.Attr.Type == unix.IFLA_IFNAME {
				name = nl.BytesToString(attr.Value)
			}
		}
		for _, attr := range attrs {
			if attr.Attr.Type != unix.IFLA_AF_SPEC {
				continue
			}
			of, err := linkSysctls(name, attr.Value, forwarding)
			if err != nil {
				return nil, fmt.Errorf("the sysctls of %q: %w", name, err)
			}
			s = append(s, of...)
		}
	}
	return s, nil
}

// linkSysctls reads the attribute IFLA_AF_SPEC of a link.
func linkSysctls(link string, spec []byte, forwarding map[string]int32) (s Snapshot, err error) {
	families, err := nl.ParseRouteAttr(spec)
	if err != nil {
		return nil, err
	}
	for _, f := range families {
		name, known, which := "ipv4", sysctls4, uint16(iflaInetConf)
		switch f.Attr.Type &^ unix.NLA_F_NESTED {
		case unix.AF_INET:
		case unix.AF_INET6:
			name, known, which = "ipv6", sysctls6, iflaInet6Conf
		default:
			continue // a bridge's, of MPLS
		}
		attrs, err := nl.ParseRouteAttr(f.Value)
		if err != nil {
			return nil, err
		}
		for _, attr := range attrs {
			for i := 0; attr.Attr.Type == which && 4*i+4 <= len(attr.Value); i++ {
				is := sysctl{name: fmt.Sprintf("number-%d", i)} // of a newer kernel
				if i < len(known) {
					is = known[i]
				}
				if is.name == "forwarding" {
					is.usual = forwarding[name]
				}
				if v := int32(binary.NativeEndian.Uint32(attr.Value[4*i:])); is.name != "" && v != is.usual {
					s = append(s, fmt.Sprintf("sysctl: net.%s.conf.%s.%s = %d", name, link, is.name, v))
				}
			}
		}
	}
	return s, nil
}
