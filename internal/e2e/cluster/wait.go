package cluster

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// errFinal marks an error that waiting does not help.
var errFinal = errors.New("no use to wait")

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
