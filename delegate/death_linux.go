package delegate

import "syscall"

// dieWithParent lets the kernel kill the program when this process dies, however it dies. A runtime's
// time-out kills a plugin, the runtime's DEL finds nothing, and a moment later the orphaned IPAM
// program would take an address that nobody releases.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
