//go:build !linux

package skel

// isTerminal tells of nothing that it is a terminal here: plugins run on Linux.
func isTerminal(uintptr) bool { return false }
