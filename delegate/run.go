package delegate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"github.com/cnikit/cnikit/netconf"
)

const (
	grace  = 500 * time.Millisecond // see Exec.Grace
	linger = 500 * time.Millisecond // how long a blocked Exec.Stderr may delay the return

	// A program that is just being installed cannot be started ("text file busy"), nor can one
	// that another thread's fork, between fork and exec, still holds open for writing. The latter
	// is over in a millisecond, the former usually in less than a second: ten attempts, with
	// pauses of 1 ms to 256 ms, 511 ms in all.
	busyAttempts = 10
)

// run starts the program, feeds it, and waits for its end or the context's.
func (e Exec) run(ctx context.Context, path, name string, req *netconf.Request) (output, error) {
	// The kernel sends the parent-death signal when the thread that forked ends, not the process: the
	// thread is held until the program has ended.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	stdin, err := filled(req.Config)
	if err != nil {
		return output{}, netconf.Unchanged(netconf.Errorf(startCode(err), "stdin: %w", err))
	}
	defer stdin.release()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	streams, err := newStreams(e.stderr(req), name, cancel)
	if err != nil {
		return output{}, netconf.Unchanged(netconf.Errorf(startCode(err), "pipes: %w", err))
	}
	defer streams.close()

	cmd, err := start(ctx, func() *exec.Cmd {
		return &exec.Cmd{Path: path, Args: []string{path}, Env: req.Env(),
			Stdin: stdin.file, Stdout: streams.stdout.w, Stderr: streams.stderr.w, SysProcAttr: ties()}
	})
	streams.read() // also when nothing was started: it ends at once then
	if err != nil {
		return output{}, netconf.Unchanged(err)
	}
	exited, stopped := make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		e.end(cmd.Process, exited)
	})
	err = cmd.Wait()
	close(exited)
	running := stop() // the context had not ended
	if !running {
		<-stopped
	}
	out := streams.collect()
	switch {
	case out.tooMuch:
		out.exit = nil // that it was killed for it is no news
		return out, nil
	case !running:
		return out, interrupted(ctx, out)
	case err != nil && !isExit(err):
		return out, netconf.Errorf(netconf.CodeIOFailure, "wait for %q: %w", path, err)
	}
	out.exit = err
	return out, nil
}

// interrupted is the error of a call whose context ended. What the program said about it is added.
func interrupted(ctx context.Context, out output) error {
	err := ended(ctx)
	if _, said, _ := documents(out.stdout); said != nil { // if it is none, the end of the context is the news
		return fmt.Errorf("%w; it said: %s", err, described(said))
	}
	return err
}

// start starts the program; each attempt needs a command of its own, since an exec.Cmd cannot be started twice.
func start(ctx context.Context, command func() *exec.Cmd) (*exec.Cmd, error) {
	pause := time.Millisecond
	for attempt := 1; ; attempt++ {
		cmd := command()
		err := cmd.Start()
		switch {
		case err == nil:
			return cmd, nil
		case errors.Is(err, syscall.ETXTBSY) && attempt < busyAttempts:
		default:
			return nil, netconf.Errorf(startCode(err), "start: %w", err)
		}
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
			pause *= 2
		case <-ctx.Done():
			timer.Stop()
			return nil, fmt.Errorf("start: %w: %w", err, ended(ctx))
		}
	}
}

// startCode is the code of a program that could not be started, or not be fed: 11 where the machine, or this process, has
// too much to do just now, and the same call may succeed later.
func startCode(err error) uint {
	for _, short := range []error{syscall.ETXTBSY, syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE} {
		if errors.Is(err, short) {
			return netconf.CodeTryAgainLater
		}
	}
	return netconf.CodeIOFailure
}

// end asks the program and its children to end and, when the grace is over, kills what is left of them: a
// wrapper's shell dies at once, and its child needs the time to undo its work. The group can be named
// even when the program itself has ended: its number is not given to another process while a member
// lives, and numbers are reused only after all others were.
func (e Exec) end(p *os.Process, exited <-chan struct{}) {
	wait := e.Grace
	if wait <= 0 {
		wait = grace
	}
	terminate(p)
	over := time.NewTimer(wait)
	defer over.Stop()
	select {
	case <-exited:
	case <-over.C:
		kill(p)
		return
	}
	// Nothing tells of the end of a group. A dead child counts until init reaps it: with one that does not,
	// the whole grace goes by.
	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	for left(p) {
		select {
		case <-look.C:
		case <-over.C:
			kill(p)
			return
		}
	}
}
