//go:build !linux

package delegate

import (
	"os"
	"syscall"
)

// A plugin runs on Linux; here is what lets it be built, and called in tests, elsewhere.

// ties are none: a killed caller leaves the program running, and an ended context the program's children.
func ties() *syscall.SysProcAttr { return nil }

// left is asked when the program has ended, and of its children nothing is known.
func left(*os.Process) bool { return false }

// Errors of the following two are that the program has ended, or that the system cannot ask it to.

func terminate(p *os.Process) { _ = p.Signal(syscall.SIGTERM) }

func kill(p *os.Process) { _ = p.Kill() }

// hurry does nothing: copy ends with the pipe's last writer, or is left behind.
func hurry(*os.File) bool { return false }

func drain(*os.File, []byte, func([]byte)) {} // see hurry

// filled returns a file that holds all of the data: how much a pipe takes at once is known for Linux only.
func filled(data []byte) (input, error) { return filledFile(data) }
