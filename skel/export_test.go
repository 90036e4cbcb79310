package skel

import (
	"bytes"
	"strings"
)

// ByHand is what a person sees who starts the plugin. terminal is for stdin and stdout.
func (p Plugin[C]) ByHand(args []string, stdin string, terminal, colour bool) (exit int, served bool, stdout, stderr string) {
	var out, log bytes.Buffer
	h := &hand{args: args, stdin: strings.NewReader(stdin), stdout: &out, stderr: &log, terminal: terminal, colour: colour}
	exit, served = p.core().byHand(h, terminal)
	return exit, served, out.String(), log.String()
}
