// Package flock is a lock on an open file, which the kernel drops with its holder: a killed process holds nothing.
//
// It is for those rooms that have a file for each attachment (skel's lock, delegate's records) and lets them share what is
// easily done wrong, and nothing else; when to wait, and for how long, is theirs:
//
//	f, err := os.OpenFile(path, os.O_RDWR, 0)
//	taken, err := flock.Try(f)
//	if taken && flock.StillAt(f, path) { ... }
//
// The lock is of the open file, not of the process: two goroutines that open the file each on its own keep each
// other out as two processes do. It ends with Close.
//
// It never blocks: a blocking flock cannot be called off by a context. Where there is none (Windows) the error
// Is errors.ErrUnsupported.
//
// The trap: between opening and locking, the holder may have removed the file and somebody else made it anew. Then
// the lock that was got is on a file that nobody will ever open again: ask StillAt after each Try.
package flock
