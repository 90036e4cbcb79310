//go:build unix

package skel

import "syscall"

// logFlags: a link is not followed, a FIFO is not waited for.
const logFlags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK | syscall.O_NOCTTY
