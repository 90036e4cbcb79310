// Package delegate runs other CNI plugins: a program found in CNI_PATH, or a Go value in this
// process, behind the one interface [Plugin]; and lists of them.
//
// It is for a plugin that delegates and for a runtime, which needs nothing else of this module but netconf:
//
//   - [Step] is another plugin as one step of an attachment, among link's and one's own.
//   - [Network] is a conflist, or the configuration of one plugin, read from bytes, a file or a folder, with all the
//     verbs: what libcni does with it, but that a failed ADD is undone, a DEL tries all, and no number changes.
//     Its Validate says beforehand whether the plugins are there and serve its version.
//   - [Registry] says which plugins are Go values of this process, so that no process is started for them.
//   - [Exec] and [InProcess] are one plugin; package ipam is built on them.
//   - [Set] is several networks of one container, one after the other or some at once; what fails undoes all.
//   - [Records] is a folder that remembers them, so that DEL, CHECK and GC need neither the API nor the files that the
//     networks came from. The record is on the disk before the first plugin runs, and gone with the last.
//
// A runtime:
//
//	network, err := delegate.LoadNetwork("/etc/cni/net.d", "lan")
//	err = network.Validate(ctx, nil, req)
//	req.Environ = os.Environ()
//	result, err := network.Add(ctx, nil, req)
//	err = req.SetPrev(result.JSON) // also from a record
//	err = network.Del(ctx, nil, req)
//
// What it promises for a program, [Exec]:
//
//   - It gets the request's own environment and configuration, byte for byte. Nothing is read from or
//     written to this process's environment, so that calls may run side by side.
//   - Its stdin is complete before it starts: killed at any moment, this process leaves no delegate
//     behind that acts on half a configuration. And it leaves no delegate behind: on Linux the
//     program dies with this process, also by kill -9, so that no orphan takes an address that
//     nobody releases. What the program itself has started lives on after a kill -9 of this process: the kernel
//     passes that signal to the program alone, so that an IPAM wrapper in sh, "(sleep 1.5; host-local)", may still take an
//     address; one that ends in "exec host-local" cannot.
//   - The call ends when its context does: SIGTERM to the program and its children (on Linux; elsewhere to
//     the program alone), SIGKILL half a second later, and no waiting for a pipe that a grandchild holds
//     open. Without a deadline in the context a call takes as long as the program does.
//   - Its stderr is passed on line by line as it comes, to the request's, each line with the plugin's name; the end
//     of it is in the error's details.
//   - Every failure is an [Error] that names plugin, verb and network, with the CNI code and the text
//     that the plugin gave. Code 3, which tells a runtime that no DEL is needed, becomes 11: the
//     caller's own work is still there.
//   - A verb that the configuration's version does not have is not sent, and is no error.
//
// The package starts processes, reads folders of networks and keeps one of records, and does nothing else: no kernel
// objects, no os.Setenv, no log. Only Records keeps anything: what else CHECK and DEL need is in the result of ADD and in
// [Network.Bytes].
//
// The trap: CNI_ARGS, CNI_PATH and the rest come from the request, but what is not CNI's (PATH, HOME,
// a proxy) comes from [netconf.Request].Environ. skel fills it; who makes a request otherwise sets it, or
// the plugin runs without a PATH. So it is with Stderr, whose zero value is this process's own. And a
// plugin that starts a daemon must give it streams of its own: what still writes to the plugin's when the
// plugin has ended gets SIGPIPE.
package delegate
