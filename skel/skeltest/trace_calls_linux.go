//go:build linux && !arm && !riscv64 && !loong64

package skeltest

import "golang.org/x/sys/unix"

// The calls that not every architecture has, or not by this name.
const (
	sysMmap   = unix.SYS_MMAP
	sysRename = unix.SYS_RENAMEAT
)
