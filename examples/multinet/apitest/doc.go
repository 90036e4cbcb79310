// Package apitest holds the tests of the program, as a process, with an API server that answers late, wrongly or not at
// all, and counts what the program asks. The server is kubetest's, over TLS; what a real one says is tested in
// internal/e2e/multinet.
//
// What must hold, whatever the server does:
//
//   - What fails for a while is asked again, within the call's deadline; what the server says no to is believed.
//   - An ADD that fails leaves nothing, and no plugin has run if it fails before the pod and all definitions are read.
//   - A runtime that gives up gets code 11, and nothing is left; killed, the program leaves what a DEL takes away.
//   - CHECK, DEL and GC ask for nothing, and work without a server.
//   - Events are for people: what becomes of them fails no call.
//
// The trap: the tests run side by side on one host, with a container of its own each. A GC takes what is not in its list,
// and so the links of the others: a test that calls it is not parallel.
package apitest
