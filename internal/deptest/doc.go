// Package deptest holds each room of this module to what it may know, as a test of that room:
//
//	func TestImports(t *testing.T) { deptest.Room(t, ".", "netconf", "golang.org/x/sys/unix") }
//
// It is for those who work on the module. A room is a top-level package; a user can take one and
// leave the others, and pays at every start of a plugin for what it links. So three things are checked,
// and each failure says why the rule exists:
//
//   - the imports of the room's own files, for every operating system: the standard library, the
//     types of CNI, and what the test allows by name; never another room unless it is allowed;
//   - what a plugin that takes the room would link: nothing of [forbidden];
//   - what the room's code touches: the environment, the standard streams and the exit code belong to
//     skel alone, and no init function runs before a plugin's main.
//
// The trap: the second needs the go command and the module cache. Where there is no go command it is
// skipped, and the gate sees to it that it runs as root.
package deptest
