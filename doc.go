// Package cnikit is a Go SDK for writing CNI plugins: you describe an attachment once, as a short list
// of steps, and get every verb of the specification (ADD, CHECK, DEL, GC, STATUS, VERSION) in every version
// from 0.1.0 to 1.1.0, with rollback that always runs, and a harness to test it with.
//
// The code is in five rooms, each of use without the others:
//
//   - [github.com/cnikit/cnikit/skel]: the entry of a plugin; verbs, order, rollback, lock, state, the
//     one document on stdout.
//   - [github.com/cnikit/cnikit/link]: links, addresses and routes in any network namespace, as steps and
//     as a core for daemons; below it [github.com/cnikit/cnikit/link/nat], masquerade and port mapping.
//   - [github.com/cnikit/cnikit/ipam]: addresses, from the IPAM plugin that the configuration names, or static ones.
//   - [github.com/cnikit/cnikit/delegate]: running another plugin, a binary or a Go value.
//   - [github.com/cnikit/cnikit/netconf]: a call, decoded; a result, encoded; error codes. The vocabulary
//     that the other four share.
//
// Nobody imports sideways, but ipam its delegate:
//
//	             examples/*            your own main
//	               |    |    \      \
//	             skel  link  ipam → delegate
//	               \    |     |     /
//	                   netconf
//	                      |
//	std, containernetworking/cni: pkg/types, pkg/types/100, pkg/version
//
// That is a rule with a test: each room has a deps_test.go. It is why a step (an Add, a Check and a Del
// that take a [github.com/cnikit/cnikit/netconf.Request]) can be written in any room, or in your own
// code, without one knowing of the other: skel declares the interface, the rest satisfies it.
//
// Beside them, [github.com/cnikit/cnikit/skel/skeltest] is what a plugin's tests need: calls in-process,
// throw-away namespaces, snapshots, and faults put at each operation of a call in turn.
//
// Where to start: examples/plugins/macvlan/main.go is a whole plugin in some forty lines; copy it.
// "make demo" runs it, for real.
package cnikit
