// Command init is process 1 of a guest: the kernel starts it, under emulation or as user-mode Linux, and it makes
// the host's files visible at their own paths, runs the programs that the host asks for, one after the other, and
// switches the guest off.
//
// The host and the guest share one folder, /run/guest here. In it are env (the programs' environment, a NUL after
// each word), modules (a link to the kernel's modules), and for each program a folder jobs/NAME with argv, dir and
// limit (seconds). Here output, and last of all status, are added to it. A program that has no status in the end
// did not end: the guest failed, and what init says about it is on the console.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

const share = "/run/guest"

func main() {
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "init: this is for process 1 of a guest")
		os.Exit(2)
	}
	err := guest()
	if err != nil {
		fmt.Fprintln(os.Stderr, "guest init:", err)
	}
	unix.Sync()
	err = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	fmt.Fprintln(os.Stderr, "guest init: switch off:", err) // the kernel panics when we return, which ends the guest too
}

func guest() error {
	uml, err := root()
	if err != nil {
		return err
	}
	if err := system(uml); err != nil {
		return err
	}
	words, err := read(filepath.Join(share, "env"))
	if err != nil {
		return err
	}
	os.Clearenv()
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		if err := os.Setenv(key, value); err != nil {
			return fmt.Errorf("environment %q: %w", word, err)
		}
	}
	jobs, err := filepath.Glob(filepath.Join(share, "jobs", "*"))
	if err != nil {
		return err
	}
	for _, dir := range jobs { // sorted
		if err := run(dir); err != nil {
			return fmt.Errorf("job %s: %w", filepath.Base(dir), err)
		}
	}
	return nil
}

// read returns the words of a file, each of which ends with a NUL.
func read(name string) ([]string, error) {
	data, err := os.ReadFile(name)
	if err != nil || len(data) == 0 {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(string(data), "\x00"), "\x00"), nil
}
