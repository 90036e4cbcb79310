// Package testbin builds the programs that tests run as processes: this module's plugins, and the
// reference IPAM plugins and runtime tool that internal/tools pins.
//
// Programs go into a folder of the user's cache, so that a second run only asks the go command whether
// they are current (70 ms). Each of two checkouts has a folder of its own. The go command must be on the PATH.
//
// In a guest, where compiling would take minutes, it compiles nothing: with CNIKIT_TEST_PREBUILT in the environment
// the programs must be there already. TestBuild of this package, run on the host before, builds those that the root
// module's tests ask for.
//
// It is for tests: a failure to build fails the test that asked, and is never a skip.
package testbin
