// Package link makes and checks what the kernel holds for an attachment, in any network namespace: links,
// addresses, routes, sysctls.
//
// What is put on a link that another plugin made, in a chain, has types of its own: [Tune] (its attributes), [Sysctls],
// [Routes], [Rules], [Neighbours], [SourceRouting] (tables of routes for the addresses of a second interface),
// [VRF] (a routing domain of its own), [Bandwidth] (on the host, of a veth pair). [DefaultRoutes] says which of several links leads out.
//
// [Loopback] sets a container's lo up. [Device] moves a link of the host's into the container, and back.
//
// It has two layers. The core knows no CNI call: [NS] is an open namespace, [Owner] says whose a
// link is, and each kind of link ([Macvlan], [Macvtap], [IPvlan], [VLAN], [Dummy], [Veth], [Netkit], [Tap], [Bridge]) has
//
//	Create   make it; what is there already is an error that Is netconf.ErrExists
//	Ensure   make it, or bring what is ours back to what it should be
//	Verify   compare it with what was made; a difference Is netconf.ErrDifferent
//	Delete   take it away, if it is the owner's; what is gone is no error
//
// A daemon repairs with it. On top of it are thin steps for plugins, the methods Add, Check, Del, GC and
// Status of the same types, which take a netconf.Request.
//
// What it promises:
//
//   - The kernel is the record: no file says what was made. Links carry their owner as alias, group and
//     (on the host) name, routes and rules the protocol number [Protocol], queueing disciplines
//     [ShapeHandle]. So DEL works without a namespace, without a prevResult, after a kill between any
//     two messages, and twice. What the kernel cannot remember, how another's link was before, is in
//     req.State, written before the change.
//   - A link that is not the owner's is never changed and never deleted. It is the owner's by its alias, by its
//     group where it has no alias (killed between the two messages), or, inside a container and without a
//     mark of any attachment, because the prevResult names it with the same hardware address. To go
//     by name and kind there, since its owner can wipe a label, had the DEL after an ADD that found
//     a foreign eth0 (code 100) take that away. Who wipes the label of his link keeps it until his
//     namespace goes, and harms nobody else. On the host nothing goes on the word of a prevResult, which
//     may name the uplink.
//   - A link is born in its namespace under its final name, down. Nothing but a
//     [Device] is moved or renamed, except on kernels before 6.15 where the host has a link of the name that the container's
//     shall get.
//   - An interrupted dump is begun again and never used half.
//   - The caller's threads stay where they are: a netlink handle needs none in the namespace, and
//     what does ([NS.Do], [NS.Sysctl]) has one of its own.
//
// A link of a kind that this package does not have is a step of the plugin's own; the example CustomStep
// is one. A new kind here begins as a copy of macvlan.go and macvlan_linux_test.go. What all kinds have in common is in
// kind.go (birth, labels, comparison, removal) and step.go (where, and for whom, a call works); its line in
// the kinds of kind_linux_test.go holds it to what every kind is held to.
//
// It never reads a configuration or the environment, starts no process and writes no log. On other
// systems than Linux it builds and answers [ErrNotSupported].
//
// The one trap: ifindexes count per namespace. A netlink.Link that was read through one NS's handle
// means another link, or none, to the handle of another.
package link
