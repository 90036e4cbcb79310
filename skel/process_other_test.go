//go:build !linux

package skel_test

// processMain: the tests that start the test binary as a plugin are for Linux.
func processMain(string) {}
