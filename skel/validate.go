package skel

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"unicode"

	"github.com/cnikit/cnikit/netconf"
)

// validate checks files, each a plugin's configuration or a list of plugins, as an ADD with them would be
// checked before any work: no kernel, no network, no other process. It returns 0 where nothing is wrong,
// 1 with findings (of warnings alone only if strict), 2 where the command itself is wrong or a file cannot be
// read; the highest counts.
func (c *core) validate(h *hand, args []string) int {
	strict := false
	for len(args) > 0 && strings.HasPrefix(args[0], "-") && args[0] != "-" {
		switch args[0] {
		case "-strict", "--strict":
			strict = true
		case "--":
		default:
			return h.misused("validate has no option %q: %s validate [-strict] FILE...", args[0], c.name)
		}
		args = args[1:]
	}
	if len(args) == 0 {
		return h.misused("no file: %s validate [-strict] FILE..., where - is stdin", c.name)
	}
	exit := 0
	for _, name := range args {
		data, err := h.read(name)
		if err != nil {
			exit = h.misused("%v", err)
			continue
		}
		if name == "-" {
			name = "stdin"
		}
		v := &validation{core: c, data: data, stderr: h.stderr}
		v.file(strings.HasSuffix(name, ".conflist"))
		exit = max(exit, v.report(h, name, strict))
	}
	return exit
}

// read reads a file, and no more of it than is too much. What is no file is not waited for: a FIFO nobody
// writes to has no end.
func (h *hand) read(name string) ([]byte, error) {
	in := h.stdin
	if name != "-" {
		f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return nil, err
		}
		defer f.Close() // nothing was written
		info, err := f.Stat()
		if err != nil {
			return nil, err
		}
		if !info.Mode().IsRegular() {
			return nil, fmt.Errorf("%q is no regular file: expected one, or - for stdin", name)
		}
		in = f
	}
	return io.ReadAll(io.LimitReader(in, netconf.MaxConfig+1))
}

// finding is one thing that is wrong with a file.
type finding struct {
	line, column int // from 1; the column counts bytes, as a compiler's does
	warning      bool
	text         string // the JSON path first, where there is one
}

// report writes what was found, and returns 1 if it is a reason to fail, 2 if it cannot be written: a check whose answer
// is lost must not pass.
func (v *validation) report(h *hand, name string, strict bool) (exit int) {
	var out strings.Builder
	failed, rest, at := false, v.data, 1 // the line that rest begins with: they are in order
	for _, f := range v.found {
		label := ""
		if f.warning {
			label = h.paint(yellow, "warning:") + " "
		}
		fmt.Fprintf(&out, "%s %s%s\n", h.paint(bold, fmt.Sprintf("%s:%d:%d:", printable(name), f.line, f.column)), label, printable(f.text))
		if h.terminal {
			for ; at < f.line; at++ {
				rest = rest[bytes.IndexByte(rest, '\n')+1:]
			}
			out.WriteString(h.excerpt(rest, f))
		}
		failed = failed || !f.warning || strict
	}
	if !failed {
		fmt.Fprintf(&out, "%s: ok, %s\n", printable(name), v.seen())
	}
	if failed {
		exit = 1
	}
	return max(exit, h.print(out.String()))
}

// excerpt is the line of a finding, which data begins with, with a caret below the column. It is for a person at a
// terminal alone: what is in a configuration does not belong into the log of a CI run.
func (h *hand) excerpt(data []byte, f finding) string {
	const width = 96
	whole, _, _ := bytes.Cut(data, []byte("\n"))
	whole = bytes.TrimRight(whole, "\r")
	at, from, cut := min(f.column-1, len(whole)), 0, ""
	if at > width*3/4 { // a configuration on one line: what stands around the column is of interest
		from, cut = at-width/2, "..."
		for from < at && whole[from]&0xc0 == 0x80 { // not in the middle of a letter
			from++
		}
		at -= from
	}
	line := string(whole[from:min(len(whole), from+8*width)]) // it may be a line of 16 MB; a letter has up to four bytes
	letters := []rune(line)
	if len(letters) > width {
		letters = append(letters[:width], []rune("...")...)
	}
	blank := strings.Map(func(r rune) rune {
		if r == '\t' {
			return r
		}
		return ' '
	}, cut+line[:at])
	return fmt.Sprintf("    %s%s\n    %s%s\n", cut, harmless(string(letters)), blank, h.paint(red, "^"))
}

// printable is a text on one line, without what a terminal would take for a command.
func printable(s string) string {
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "\\u%04x", r)
		}
	}
	return b.String()
}

// harmless is printable for a line whose columns matter: one sign for one.
func harmless(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) || r == '\t' {
			return r
		}
		return '?'
	}, s)
}
