// Package ipam gives an attachment its addresses.
//
// [FromConfig] is the whole of it for most plugins: the step that runs the IPAM plugin named in the
// configuration's ipam section, for all five verbs, as a program found in CNI_PATH or as a Go value in this
// process:
//
//	skel.Steps{
//		link.Macvlan{...},
//		ipam.FromConfig(req), // nil without an ipam section: a layer-2 attachment
//		link.Addresses{},
//	}
//
// On ADD the plugin's answer is checked before anything uses it: it has an address, each is one that a host
// can have and is there once, and a gateway is of its address's family. Addresses, routes and DNS go into
// req.Result without an interface, which link.Addresses fills in. Whatever fails, the plugin's own ADD, its
// answer or a later step, the lease is released by one call of Del. That is the caller's: skel makes it; under
// another skel you do, see the example. CHECK, DEL, GC and STATUS are passed on; those that the configuration's
// version does not have are not sent.
//
// The step stands behind the one that makes the interface, as above: then the interface is there whenever the plugin
// is called, in the rollback too. One that speaks through it, as dhcp does, leases and releases by it.
//
// An IPAM program made with upstream's library fails, on DEL too, at arguments that are not its own.
// It is called again, with a warning, with those that it can read.
//
// [Static] gives addresses that are written down: a step for a plugin's own section, and by [StaticInProcess] a Go value
// in the place of the program "static".
//
// It does not know package skel: a step is a plain value with the methods Add, Check, Del, GC and Status,
// good under upstream's skel and in a daemon too (see the examples).
//
// The package never touches the kernel: addresses are words here. DEL asks nothing of the world but the
// program: no namespace, no parent link, no prevResult. A plugin that looked its parent up before the
// release has lost addresses for ever. So the one error of a DEL is the IPAM plugin's own: also that
// its program is missing, for then an address stays taken, and a DEL after it was put back mends that. That
// the daemon of the reference dhcp plugin is missing is none: it took its leases with it.
//
// The trap: FromConfig has no error to return, since a description of an attachment is pure. What is
// wrong with the section is noted with [netconf.Request.Reject], and the step is nil as if there were
// none. skel looks there; under another skel ask req.Rejected() before any work.
package ipam
