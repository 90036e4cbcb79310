//go:build !linux

package delegate

import "syscall"

// dieWithParent does nothing: plugins run on Linux; elsewhere a killed caller leaves the program running.
func dieWithParent(*syscall.SysProcAttr) {}
