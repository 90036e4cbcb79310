package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// What a program's status is when it has none of its own.
const (
	statusExpired  = 124 // ran longer than its limit
	statusNotFound = 127
	statusSignal   = 128 // and the signal's number
)

// grace is how long a program that reached its limit may take to say where it was.
const grace = 5 * time.Second

// run runs the program that dir describes, and notes its status there. Its processes end with it: the next one is
// alone again.
func run(dir string) error {
	argv, err := read(filepath.Join(dir, "argv"))
	if err != nil {
		return err
	}
	words, err := read(filepath.Join(dir, "dir"))
	if err != nil {
		return err
	}
	limits, err := read(filepath.Join(dir, "limit"))
	if err != nil {
		return err
	}
	if len(argv) == 0 || len(words) != 1 || len(limits) != 1 {
		return errors.New("argv, dir or limit are not as they must be")
	}
	limit, err := strconv.Atoi(limits[0])
	if err != nil {
		return err
	}
	// O_SYNC: the host prints it while it is written; hostfs would keep it for seconds.
	output, err := os.OpenFile(filepath.Join(dir, "output"), os.O_CREATE|os.O_WRONLY|os.O_APPEND|os.O_SYNC, 0o644)
	if err != nil {
		return err
	}
	status, err := start(argv, words[0], output, time.Duration(limit)*time.Second)
	if err != nil {
		return err
	}
	if err := output.Close(); err != nil {
		return err
	}
	unix.Sync() // what the program wrote for the host is there when its status is
	// The host looks for it all the time, and must never see half of it.
	if err := os.WriteFile(filepath.Join(dir, "status.new"), []byte(strconv.Itoa(status)+"\n"), 0o644); err != nil {
		return err
	}
	return os.Rename(filepath.Join(dir, "status.new"), filepath.Join(dir, "status"))
}

func start(argv []string, dir string, output *os.File, limit time.Duration) (status int, err error) {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, output, output
	if err := cmd.Start(); err != nil {
		_, err = fmt.Fprintf(output, "guest: %v\n", err)
		return statusNotFound, err
	}
	ended, watched, expired := make(chan struct{}), make(chan struct{}), false
	go func() {
		defer close(watched)
		if !within(limit, ended) {
			expired = true
			quit()
			if !within(grace, ended) {
				killAll()
			}
		}
	}()
	ws, err := reap(cmd.Process.Pid)
	close(ended)
	<-watched // it must not kill the next program
	if err != nil {
		return 0, err
	}
	killAll()
	if _, err := reap(-1); err != nil {
		return 0, err
	}
	switch {
	case expired:
		_, err := fmt.Fprintf(output, "guest: not done after %v\n", limit)
		return statusExpired, err
	case ws.Signaled():
		return statusSignal + int(ws.Signal()), nil
	}
	return ws.ExitStatus(), nil
}

// within tells whether done is closed before the time is over.
func within(limit time.Duration, done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-time.After(limit):
		return false
	}
}

// reap waits for processes, as process 1 has to for all orphans, until that of the given number has ended, or none
// is left.
func reap(pid int) (ws unix.WaitStatus, err error) {
	for {
		ended, err := unix.Wait4(-1, &ws, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ECHILD) && pid < 0:
			return ws, nil
		case err != nil:
			return ws, fmt.Errorf("wait: %w", err)
		case ended == pid:
			return ws, nil
		}
	}
}

// killAll kills all processes but this one; that there is none is well.
func killAll() {
	if err := unix.Kill(-1, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		fmt.Fprintln(os.Stderr, "guest init: kill:", err)
	}
}

// quit sends SIGQUIT, to which a Go program answers with its goroutines, to the processes that have no child: those
// that wait for another would take it along when they go, before it has spoken.
func quit() {
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return // the pattern is good
	}
	pids, parents := map[int]bool{}, map[int]bool{}
	for _, name := range stats {
		data, err := os.ReadFile(name)
		_, rest, found := bytes.Cut(data, []byte(") ")) // after the program's name
		fields := strings.Fields(string(rest))
		if err != nil || !found || len(fields) < 2 {
			continue // has ended
		}
		parent, err := strconv.Atoi(fields[1])
		pid, err2 := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err != nil || err2 != nil || pid == 1 {
			continue
		}
		pids[pid], parents[parent] = true, true
	}
	for pid := range pids {
		if !parents[pid] {
			if err := unix.Kill(pid, unix.SIGQUIT); err != nil && !errors.Is(err, unix.ESRCH) {
				fmt.Fprintln(os.Stderr, "guest init: signal:", err)
			}
		}
	}
}
