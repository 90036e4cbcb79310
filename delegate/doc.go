// Package delegate runs other CNI plugins: a program found in CNI_PATH, or a Go value in this
// process, behind the one interface [Plugin].
//
// It is for a plugin that delegates (to an IPAM plugin, see package ipam; to the plugins of other
// networks) and for a runtime, which needs nothing else of this module but netconf:
//
//	req.Environ = os.Environ()
//	result, err := delegate.Add(ctx, delegate.Exec{}, req)
//
// What it promises for a program, [Exec]:
//
//   - It gets the request's own environment and configuration, byte for byte. Nothing is read from or
//     written to this process's environment, so that calls may run side by side.
//   - Its stdin is complete before it starts: killed at any moment, this process leaves no delegate
//     behind that acts on half a configuration. And it leaves no delegate behind: on Linux the
//     program dies with this process, also by kill -9, so that no orphan takes an address that
//     nobody releases. (What the program itself starts is its own business.)
//   - The call ends when its context does: SIGTERM to the program and its children (on Linux; elsewhere to
//     the program alone), SIGKILL half a second later, and no waiting for a pipe that a grandchild holds
//     open. Without a deadline in the context a call takes as long as the program does.
//   - Its stderr is passed on as it comes, to the request's; the end of it is in the error's details.
//   - Every failure is an [Error] that names plugin, verb and network, with the CNI code and the text
//     that the plugin gave. Code 3, which tells a runtime that no DEL is needed, becomes 11: the
//     caller's own work is still there.
//   - A verb that the configuration's version does not have is not sent, and is no error.
//
// The package starts processes and does nothing else: no kernel objects, no os.Setenv, no log.
//
// The trap: CNI_ARGS, CNI_PATH and the rest come from the request, but what is not CNI's (PATH, HOME,
// a proxy) comes from [netconf.Request].Environ. skel fills it; who makes a request otherwise sets it, or
// the plugin runs without a PATH. So it is with Stderr, whose zero value is this process's own. And a
// plugin that starts a daemon must give it streams of its own: what still writes to the plugin's when the
// plugin has ended gets SIGPIPE.
package delegate
