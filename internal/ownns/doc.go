// Package ownns tells which network namespace the calling thread is in: for link, which works in it as "the host", and for
// skel, which must not take it for a container's. Two rooms that answered this each by itself would differ some day, and a
// DEL would then take the host's links down.
//
//	fd, err := ownns.Open()        // the namespace, as a file
//	dev, ino, err := ownns.Stat()  // what it is known by, to be compared with that of a path
//	is, err := ownns.IsNet(fd)     // a namespace, and of the network
//
// A socket says where its thread is (SIOCGSKNS, since Linux 4.10), to who may change the network; Open fails for others, and Stat
// asks [Path]. A path below /proc/PID/task would cost the process that waits for this one: when a program's last thread ends
// it takes these paths out of the kernel's cache, and if it is interrupted there the waiting one spins, 4 ms of processor
// time a call with Linux 6.18 on a busy machine.
//
// The trap: the answer is the thread's. It holds as long as the goroutine is locked to it, or no thread of the process is
// ever moved but those that are not given back.
//
// It takes nothing but the standard library, since skel must not link more. It is for Linux alone; elsewhere there are no
// network namespaces, and who calls it has another file.
package ownns
