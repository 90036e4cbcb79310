package skel

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/cnikit/cnikit/netconf"
)

// Main is the main function of a plugin: it serves the one call that the process was started for and
// exits. It never returns.
//
// stdout is set aside first, and file descriptor 1 points at stderr from then on: what a
// library or a child prints cannot break the protocol. SIGTERM, SIGINT and SIGHUP end the call with code
// 11 after its rollback; SIGPIPE does nothing, so that a runtime that went away is a failed write,
// with rollback, and not a sudden end.
//
// Go code runs on one processor at a time, unless the environment has GOMAXPROCS: a call is one thing after another, and
// to wake a second thread for each hand-over costs 7 % of the CPU time of an ADD by macvlan. Steps that compute in
// parallel set runtime.GOMAXPROCS; what waits, for the kernel or a server, does so in parallel as ever.
//
// Without CNI_COMMAND it is a person who has started it: with the argument help, or with none at a
// terminal, it says what it is; with validate and names of files it checks configurations; with
// version it says its versions. Without arguments and without a terminal it answers as the
// specification wants it, with an error of code 4. With CNI_COMMAND arguments mean nothing.
func Main[C any](p Plugin[C]) {
	os.Exit(p.core().main())
}

func (c *core) main() int {
	if os.Getenv("CNI_COMMAND") == "" {
		h := &hand{args: os.Args[1:], stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, terminal: isTerminal(1)}
		if closedAtStart(1) {
			h.stdout = unwritable{}
		}
		h.colour = h.terminal && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
		if exit, served := c.byHand(h, isTerminal(0)); served {
			return exit
		}
	}
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(1)
	}
	stdout := setAside()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	if os.Getenv("CNI_COMMAND") != string(netconf.Version) { // which has nothing to undo, and would take a sixth longer
		endOnSignal(cancel)
	}
	return c.run(ctx, IO{Env: os.Environ(), Stdin: os.Stdin, Stdout: stdout, Stderr: os.Stderr})
}

// endOnSignal ends the call when a signal says so.
func endOnSignal(end context.CancelCauseFunc) {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGPIPE)
	go func() {
		for s := range signals {
			if s != syscall.SIGPIPE {
				end(netconf.Errorf(netconf.CodeTryAgainLater, "interrupted by signal: %v", s))
			}
		}
	}()
}

// unwritable is a stdout that was closed when the process began.
type unwritable struct{}

func (unwritable) Write([]byte) (int, error) { return 0, errors.New("stdout is closed") }

var _ io.Writer = unwritable{}
