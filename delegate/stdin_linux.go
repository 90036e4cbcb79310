package delegate

import (
	"os"
	"syscall"
)

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
