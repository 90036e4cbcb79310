//go:build unix

package delegate

import (
	"os"
	"syscall"
)

// ownGroup makes the program the leader of a process group, so that what it starts can be ended with
// it: a shell script's commands hold its pipes and would go on working. A signal from a terminal
// does not reach the group; it ends the context, and that ends the group.
func ownGroup(attr *syscall.SysProcAttr) { attr.Setpgid = true }

// Errors of the following are that the group is gone, which is what is wanted.

func terminate(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGTERM) }

func kill(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }
