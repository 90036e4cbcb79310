package skel

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
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
func Main[C any](p Plugin[C]) {
	os.Exit(p.core().main())
}

func (c *core) main() int {
	stdout := setAside()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	if os.Getenv("CNI_COMMAND") != string(netconf.Version) { // which has nothing to undo, and would take a sixth longer
		endOnSignal(cancel)
	}
	if os.Getenv("CNI_COMMAND") == "" && c.broken == nil {
		c.help(os.Stderr)
		if info, err := os.Stdin.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			_ = os.Stdin.Close() // a terminal: nobody will write a configuration there
		}
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
