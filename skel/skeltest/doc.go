// Package skeltest is what the tests of a plugin need: calls in-process with the environment and the
// streams as values, so that tests run in parallel; throw-away namespaces; snapshots of a namespace
// with a readable difference; and faults, put at each kernel request, process and write of a call in turn.
//
// A package whose tests touch the kernel begins with
//
//	func TestMain(m *testing.M) { skeltest.Main(m) }
//
// which runs all of its tests in a network and mount namespace of their own, with empty /run and /var/lib/cni: what they
// do there is never seen by the machine, nor by another package's tests. Other folders are the machine's: see [Main].
// Such a test calls [NeedRoot] first (a [NewNS] does it too): without root it is skipped, with the
// reason.
//
// A [Call] is one call in the runtime's words, made with a skel.Plugin or with a [Binary] of any make; its
// [Answer] has been held against the protocol. [Build] builds a program, the tested one or one that it calls. [NewIPAM]
// gives addresses, and fails or hangs when told to.
// [Walk] makes ADD and DEL fail, panic and be cancelled at each of their operations, which a step announces by
// netconf.Before, and looks whether anything is left.
//
// [Conform] holds a plugin against all [Requirements] of the specification and of those who run clusters, each on a host
// of its own; the command conformance does so from the outside. Each [Requirement] says what must hold, where it is
// said, and what to do about it. Its check gets a [Bench], which is a testing.TB, so that everything here works in it.
//
// The trap: a namespace's commands run on a locked thread ([NS.Do]). What is started inside as a
// goroutine runs in the host's namespace again.
//
// Nothing but tests may import this package.
package skeltest
