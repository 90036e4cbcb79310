// Package testbin builds the programs that tests run as processes: this module's plugins, and the
// reference IPAM plugins and runtime tool that internal/tools pins.
//
// Programs go into a folder of the user's cache, so that a second run only asks the go command whether
// they are current (70 ms). Each of two checkouts has a folder of its own. The go command must be on the PATH.
//
// It is for tests: a failure to build fails the test that asked, and is never a skip.
package testbin
