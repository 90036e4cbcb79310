// Package nat translates addresses for containers: it masquerades what they send, and leads ports of the host into
// them, with nftables, spoken over netlink. No process is started.
//
// As in package link, a core knows no CNI call ([Masquerade] and [PortMap] with Create, Ensure, Verify, Delete and
// Collect, for a daemon), and thin steps for plugins are the methods Add, Check, Del, GC and Status of the
// same types.
//
// What it promises:
//
//   - One table, "inet cnikit" ([Table]), is made with the first attachment and stays. What an attachment adds are
//     elements of its maps and sets, so a packet costs the same with one port mapped and with 5,000: the
//     first of each flow a look into a hash table, the others nothing.
//   - The kernel is the record: each element carries its owner as its comment, "cni:NETWORK:CONTAINERID:IFNAME", so
//     DEL and GC need no file, no namespace and no prevResult.
//   - What is made for a container's address, which networks may give twice, lasts as long as one of those who have it.
//     Packets do not tell them apart: one that is masqueraded for one is so for all.
//   - A port of the host has one owner. A second one, be it that one of the two wants one address of the host and the
//     other all of them, is refused with the name of the first before anything is changed.
//   - Every change is one batch, which the kernel takes whole or not at all, and only if nobody has changed the ruleset
//     since it was looked at; else it is looked at again. So two calls never take the same port, a DEL never
//     removes what has just become somebody else's, and a hundred first calls make one table.
//   - A ruleset that nft has listed and loads again, as a firewall's service does, means the same, and CHECK finds it so.
//   - No table of others is read or changed. Our chains come right behind those at the usual priorities: what a
//     service proxy or iptables translates stays theirs. [MarkBit] is the one bit of a packet's mark that is used.
//   - Turning on route_localnet, without which the host does not reach a port by 127.0.0.1, opens the host's loopback
//     to no one: a rule drops what comes for it from outside. It is set where the host reaches the container by a bridge,
//     which keeps it, or by one end of a pair with a route for the one address, which has it until the last mapping
//     goes; on no other link, for that may be the host's way out.
//
// The messages are written here and not by github.com/google/nftables: version 0.3.0 can neither make a batch depend
// on the generation of the ruleset, nor get one element, nor refuse an element that is there, and does not notice
// that a list was interrupted; it brings 13 packages and two init functions into a plugin.
//
// It needs Linux 5.2 (nat in the family inet); an older kernel, or another system, is link.ErrNotSupported.
//
// What has removed something waits, when it closes its socket or ends, until the kernel's readers are through: a DEL
// takes 10 to 20 ms for that, as one with nft or iptables does. An ADD does not.
//
// SCTP is translated where the kernel tracks its ports (CONFIG_NF_CT_PROTO_SCTP, which distributions have), and only packets whose
// checksum is right.
//
// The one trap: a container that is reached past the host, as one with a macvlan, is not reached by a mapped
// port; and where a filter of others drops what is forwarded, it drops this too.
package nat
