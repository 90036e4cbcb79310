//go:build linux && (riscv64 || loong64)

package skeltest

import "golang.org/x/sys/unix"

// Architectures that came after renameat2 have no renameat.
const (
	sysMmap   = unix.SYS_MMAP
	sysRename = unix.SYS_RENAMEAT2
)
