//go:build !linux

package delegate_test

// caller: the tests that start the test binary as a caller are for Linux.
func caller(string) { panic("a caller's death is tested on Linux") }
