package skeltest

import "golang.org/x/sys/unix"

// On ARM of 32 bits only mmap2 is left.
const (
	sysMmap   = unix.SYS_MMAP2
	sysRename = unix.SYS_RENAMEAT
)
