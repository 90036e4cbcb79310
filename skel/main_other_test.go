//go:build !linux

package skel_test

// pluginMain: the tests that start the test binary as a plugin are for Linux.
func pluginMain() { panic("a plugin's process is tested on Linux") }
