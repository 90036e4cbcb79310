package cluster

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// patience is how long anything that is waited for may take: an API server that gets ready, a pod that runs.
// Each takes a few seconds on two cores; the rest is for machines where much else runs.
const patience = 3 * time.Minute

// errFinal marks an error that waiting does not help.
var errFinal = errors.New("no use to wait")

// Eventually asks until there is no error; the test fails when there still is one after three minutes. It is for
// what a cluster takes seconds for, or a minute when much else runs.
func Eventually(t testing.TB, ask func() error) {
	t.Helper()
	if err := eventually(t.Context(), ask); err != nil {
		t.Fatal(err)
	}
}

// eventually asks until there is no error, for as long as patience lasts.
func eventually(ctx context.Context, ask func() error) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		err := ask()
		if err == nil || errors.Is(err, errFinal) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not after %v: %w", patience, err)
		case <-again.C:
		}
	}
}

// output runs a command and returns what it printed on stdout; its error has what it printed on stderr.
func output(cmd *exec.Cmd, stdin *string) (string, error) {
	if stdin != nil {
		cmd.Stdin = strings.NewReader(*stdin)
	}
	out, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	return string(out), err
}
