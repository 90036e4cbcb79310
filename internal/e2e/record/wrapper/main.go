// Command wrapper is what stands in a recorder's folder under a plugin's name; see package record.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/cnikit/cnikit/internal/e2e/record"
)

func main() {
	exit, err := run()
	if err != nil {
		// The runtime shows it, as an error of the plugin.
		fmt.Printf("{\"cniVersion\": \"1.0.0\", \"code\": 999, \"msg\": %q}\n", "recorder: "+err.Error())
		exit = 1
	}
	os.Exit(exit)
}

func run() (exit int, err error) {
	program, err := os.Executable()
	if err != nil {
		return 0, err
	}
	stdin, err := io.ReadAll(os.Stdin)
	if err != nil {
		return 0, err
	}
	dir, name := filepath.Split(program)
	call := record.Call{
		ID:   fmt.Sprintf("%d-%d", os.Getpid(), time.Now().UnixNano()),
		Type: name, PID: strconv.Itoa(os.Getpid()), Command: os.Getenv("CNI_COMMAND"), ContainerID: os.Getenv("CNI_CONTAINERID"),
		Netns: os.Getenv("CNI_NETNS"), IfName: os.Getenv("CNI_IFNAME"), Args: os.Getenv("CNI_ARGS"), Path: os.Getenv("CNI_PATH"),
		Stdin: string(stdin),
	}
	if err := note(dir, call); err != nil {
		return 0, err
	}
	if err := hold(dir, name+"."+call.Command); err != nil {
		return 0, err
	}
	call.Exit, err = plugin(filepath.Join(dir, record.Plugins, name), stdin)
	if err != nil {
		return 0, err
	}
	call.Ended = true
	return call.Exit, note(dir, call)
}

// note appends a line to the list of calls, in one write: others do so at the same time.
func note(dir string, call record.Call) error {
	line, err := json.Marshal(call)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, record.Calls), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Close())
}

// hold waits as long as the test wants it.
func hold(dir, name string) error {
	for first := true; ; first = false {
		_, err := os.Stat(filepath.Join(dir, record.Holds, name))
		if os.IsNotExist(err) {
			return nil
		}
		if err != nil {
			return err
		}
		if first {
			if err := os.WriteFile(filepath.Join(dir, record.Held, name), nil, 0o644); err != nil {
				return err
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// plugin runs the plugin, with the runtime's own stdout and stderr. Whoever signals or kills this process means
// the plugin.
func plugin(path string, stdin []byte) (exit int, err error) {
	cmd := exec.Command(path)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(stdin), os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // Pdeathsig follows the thread that forks
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s) // it may have ended
		}
	}()
	var failed *exec.ExitError
	if err := cmd.Wait(); err != nil && !errors.As(err, &failed) && !errors.Is(err, syscall.EPIPE) {
		return 0, err
	}
	return cmd.ProcessState.ExitCode(), nil
}
