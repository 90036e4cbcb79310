package skel

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/cnikit/cnikit/netconf"
)

// hand is a start by hand, as values. Its exit status is 0, 1 for findings of validate, or 2 where the
// command is wrong.
type hand struct {
	args           []string
	stdin          io.Reader
	stdout, stderr io.Writer
	terminal       bool // stdout is one
	colour         bool // and may have colours
}

// byHand serves a person. It does not where the process was started without arguments and without a
// terminal: that is a runtime's mistake, and gets the runtime's answer.
func (c *core) byHand(h *hand, terminal bool) (exit int, served bool) {
	command := "help"
	switch {
	case len(h.args) > 0:
		command = h.args[0]
	case !terminal:
		fmt.Fprintf(h.stderr, "%s is a CNI plugin, for a container runtime to start; \"%s help\" explains it\n", c.name, c.name)
		return 0, false
	}
	if c.broken != nil {
		return h.misused("%v", c.broken), true
	}
	switch command {
	case "help", "-h", "-help", "--help":
		return h.print(c.help(h)), true
	case "version", "-version", "--version":
		return h.print(c.version()), true
	case "validate":
		return c.validate(h, h.args[1:]), true
	}
	return h.misused("unknown command %q: %s help, version, or validate FILE...", command, c.name), true
}

// print writes to stdout.
func (h *hand) print(text string) (exit int) {
	if _, err := io.WriteString(h.stdout, text); err != nil {
		return h.misused("%v", err)
	}
	return 0
}

// misused says on stderr why a command cannot be done.
func (h *hand) misused(format string, args ...any) (exit int) {
	fmt.Fprintln(h.stderr, printable(fmt.Sprintf(format, args...)))
	return 2
}

// The colours of a terminal.
const (
	bold   = "1"
	red    = "31"
	yellow = "33"
)

// paint gives a text a colour, where there are colours.
func (h *hand) paint(colour, text string) string {
	if !h.colour {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// version is the program's version, as the go command has stamped it, and those of the specification.
func (c *core) version() string {
	of := "no module"
	if info, ok := debug.ReadBuildInfo(); ok {
		of = info.Main.Path + " " + info.Main.Version
	}
	return fmt.Sprintf("%s (%s, %s)\nCNI %s\n", c.name, of, runtime.Version(), strings.Join(c.speaks(), ", "))
}

// speaks lists the versions of the specification that VERSION announces.
func (c *core) speaks() []string {
	var steps Steps
	req := &netconf.Request{Command: netconf.Version, Warn: func(string, ...any) {}}
	if protect(req, "Plugin.Steps", func() error { steps = c.announced(req); return nil }) != nil {
		return c.versions // validate, and every call, say what is wrong
	}
	return c.supported(steps)
}
