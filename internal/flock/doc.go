// Package flock is a lock on an open file, which the kernel drops with its holder: a killed process holds nothing.
//
// It is for those rooms that have a file for each attachment (skel's lock, delegate's records) and lets them share what is
// easily done wrong, and nothing else; for how long to wait is theirs:
//
//	f, err := os.OpenFile(path, os.O_RDWR, 0)
//	err = flock.Wait(ctx, f, path)
//
// The lock is of the open file, not of the process: two goroutines that open the file each on its own keep each
// other out as two processes do. It ends with Close.
//
// Wait polls, for a blocking flock cannot be called off by a context. Where there are no locks (Windows, some network
// file systems) the error Is errors.ErrUnsupported: any other says that something is wrong.
//
// The trap: between opening and locking, the holder may have removed the file and somebody else made it anew. Then
// the lock that was got is on a file that nobody will ever open again: Wait says ErrReplaced; who calls Try asks StillAt.
package flock
