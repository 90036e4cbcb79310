package delegate

import (
	"os"
	"syscall"
	"time"
)

// What of running a program is Linux's own; exec_other.go has it for the systems on which plugins are only built.

// ties are what binds the program to this process.
//
// It leads a process group of its own, so that what it starts can be ended with it: a shell script's
// commands hold its pipes and would go on working. A signal from a terminal does not reach the group;
// it ends the context, and that ends the group.
//
// And the kernel kills it when this process dies, however it dies. A runtime's time-out kills a plugin, the
// runtime's DEL finds nothing, and a moment later the orphaned IPAM program would take an address that
// nobody releases.
func ties() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// left tells whether the program, or a child of it, is left.
func left(p *os.Process) bool { return syscall.Kill(-p.Pid, 0) != syscall.ESRCH }

// Errors of the following two are that the group is gone, which is what is wanted.

func terminate(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGTERM) }

func kill(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }

// hurry makes copy go over to drain, and tells whether it will.
func hurry(r *os.File) bool { return r.SetReadDeadline(time.Unix(1, 0)) == nil }

// drain reads what stands in a pipe and does not wait for more. After a deadline the file's own Read
// would give its error without looking into the pipe.
func drain(r *os.File, buf []byte, sink func([]byte)) {
	conn, err := r.SyscallConn()
	if err != nil || r.SetReadDeadline(time.Time{}) != nil {
		return // cannot be: the file is open and had a deadline
	}
	for total := 0; total < maxPipe; {
		n, failed := 0, error(nil)
		err := conn.Read(func(fd uintptr) bool {
			n, failed = syscall.Read(int(fd), buf)
			return true // whatever it was: no waiting
		})
		switch {
		case failed == syscall.EINTR:
		case err != nil || failed != nil || n <= 0: // EAGAIN or the end
			return
		default:
			sink(buf[:n])
			total += n
		}
	}
}

// filled returns a pipe that holds all of the data, with its writing end closed. A pipe takes 64 KiB
// (4 KiB for a user who has very many) and can be made to take 1 MiB; what does not fit goes through
// a file.
func filled(data []byte) (input, error) {
	var p [2]int
	if err := syscall.Pipe2(p[:], syscall.O_CLOEXEC); err != nil {
		return input{}, os.NewSyscallError("pipe2", err)
	}
	fits := fill(p[1], data)
	_ = syscall.Close(p[1]) // nothing can be lost: the data is in the pipe, or the pipe is not used
	r := os.NewFile(uintptr(p[0]), "stdin")
	if !fits {
		_ = r.Close() // as above
		return filledFile(data)
	}
	return input{r, func() { _ = r.Close() }}, nil // it was only read
}

// fill writes the data into the pipe without ever waiting, and tells whether all of it went in. Only the
// writing end is made non-blocking: the other is the program's.
func fill(fd int, data []byte) bool {
	if syscall.SetNonblock(fd, true) != nil {
		return false
	}
	const usual = 64 << 10
	if len(data) > usual {
		_, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_SETPIPE_SZ, uintptr(len(data)))
		if errno != 0 {
			return false
		}
	}
	for len(data) > 0 {
		n, err := syscall.Write(fd, data)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return false
		default:
			data = data[n:]
		}
	}
	return true
}
