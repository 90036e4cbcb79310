//go:build !unix

package delegate

import (
	"os"
	"syscall"
)

func ownGroup(*syscall.SysProcAttr) {}

// terminate does nothing: there is no signal that asks a process to end.
func terminate(*os.Process) {}

// kill ends the program alone. An error is that it has ended already.
func kill(p *os.Process) { _ = p.Kill() }
