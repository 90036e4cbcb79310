package delegate

import (
	"bytes"
	"io"
	"strings"
	"sync"
)

// tail passes a program's stderr on, line by line with the plugin's name, and keeps the last maxStderr bytes
// of it. In a log that several plugins write to, at once or one inside the other, a line without a name is nobody's.
type tail struct {
	to   io.Writer
	name string
	mu   sync.Mutex
	kept []byte
	line []byte // what was read of a line that has no end yet; at most maxLine
}

// maxLine is where a line without an end is passed on all the same, so that a program cannot fill the memory.
const maxLine = 16 << 10

func (t *tail) add(p []byte) {
	t.mu.Lock()
	t.kept = append(t.kept, p...)
	if n := len(t.kept) - maxStderr; n > 0 {
		t.kept = append(t.kept[:0], t.kept[n:]...)
	}
	t.mu.Unlock()
	t.pass(p)
}

// pass writes the lines that are whole with p.
func (t *tail) pass(p []byte) {
	t.mu.Lock()
	lines, to := t.lines(p), t.to
	t.mu.Unlock()
	if len(lines) > 0 {
		_, _ = to.Write(lines) // see Exec.Stderr; the error's details have the end of it in any case
	}
}

// lines takes what was read and returns the lines that are whole, each with the name.
func (t *tail) lines(p []byte) []byte {
	var out []byte
	for {
		end := bytes.IndexByte(p, '\n')
		if end < 0 && len(t.line)+len(p) < maxLine {
			t.line = append(t.line, p...)
			return out
		}
		rest := p
		if end >= 0 {
			rest = p[:end]
		}
		out = append(append(append(append(append(out, t.name...), ": "...), t.line...), rest...), '\n')
		t.line = t.line[:0]
		if end < 0 {
			return out
		}
		p = p[end+1:]
	}
}

// flush passes on a last line that has no end.
func (t *tail) flush() {
	t.mu.Lock()
	unfinished := len(t.line) > 0
	t.mu.Unlock()
	if unfinished {
		t.pass([]byte("\n"))
	}
}

// end returns what was kept. From now on nothing is passed on: the call is over.
func (t *tail) end() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.to = io.Discard
	return strings.ToValidUTF8(string(t.kept), "\uFFFD")
}
