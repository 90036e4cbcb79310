package netconf

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The scanner below walks text that checkJSON has found valid, to learn where things stand:
// encoding/json tells no offset of a value that decodes.

const pathListSeparator = ":" // CNI_PATH, SPEC section 2: as the operating system's; plugins run on Linux

// checkJSON says, with line and column, why a text is not one JSON object; op is what the text is.
func checkJSON(op string, data []byte) error {
	fail := func(off int, err error) error {
		line, column := position(data, off)
		return &Error{Op: op, Line: line, Column: column, Code: CodeDecodingFailure, Err: err}
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return &Error{Op: op, Code: CodeDecodingFailure, Err: errors.New("empty: expected a JSON object")}
	}
	if bytes.HasPrefix(data, []byte("\xef\xbb\xbf")) {
		return fail(0, errors.New("a byte-order mark: JSON is UTF-8 without one"))
	}
	if json.Valid(data) {
		if tooMany(data) {
			return &Error{Op: op, Code: CodeDecodingFailure, Err: fmt.Errorf("more than %d values", maxValues)}
		}
		if i := skipSpace(data, 0); data[i] != '{' {
			return fail(i, fmt.Errorf("expected an object, got %s", describe(data[i:])))
		}
		return nil
	}
	var value json.RawMessage
	err := json.Unmarshal(data, &value)
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		return fail(0, fmt.Errorf("not JSON: %w", err))
	}
	off := max(int(syntax.Offset)-1, 0)
	hint := ""
	switch {
	case off >= len(data) || strings.Contains(syntax.Error(), "unexpected end"):
		off, hint = len(data), ": a brace, bracket or quote is not closed"
	case data[off] == '#' || data[off] == '/':
		hint = ": JSON has no comments"
	case strings.Contains(syntax.Error(), "after top-level value"):
		hint = ": expected one object and nothing after it"
	case data[off] == '}' || data[off] == ']':
		hint = ": there may be a comma too many before it"
	}
	return fail(off, fmt.Errorf("not JSON: %w%s", syntax, hint))
}

// maxValues is how many values a text may hold. A node with 1,000 attachments has 5,000 in its longest list,
// that of GC; each costs up to 740 bytes, most of them soon free again, where it takes up two in the text: 16 MB
// of them made a process of 1.2 GB.
const maxValues = 1 << 18

// tooMany tells whether a valid text has more than maxValues values: there is a comma between any two.
func tooMany(data []byte) bool {
	if len(data) < 2*maxValues {
		return false
	}
	n := 1
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			i = skipValue(data, i) - 1
		case ',', '[', '{':
			n++
		}
	}
	return n > maxValues
}

// Lines finds the lines and columns of a text. A look-up goes on from the one before, so a thousand of them, in order,
// cost one walk: in a text of 16 MB each walk takes 15 ms.
type Lines struct {
	Text []byte

	off, breaks, start int // of the last look-up: where, line breaks before it, where its line begins
}

// Place turns a byte offset into a line and a column, both from 1; the column counts bytes, as compilers do. An offset
// behind the text is its end.
func (l *Lines) Place(off int) (line, column int) {
	if off = min(off, len(l.Text)); off < l.off {
		l.off, l.breaks, l.start = 0, 0, 0
	}
	part := l.Text[l.off:off]
	if last := bytes.LastIndexByte(part, '\n'); last >= 0 {
		l.breaks, l.start = l.breaks+bytes.Count(part, []byte{'\n'}), l.off+last+1
	}
	l.off = off
	return 1 + l.breaks, 1 + off - l.start
}

// position is Place, once.
func position(data []byte, off int) (line, column int) { return (&Lines{Text: data}).Place(off) }

// member is a key of an object with the offsets of its value.
type member struct {
	key        string
	at         int // where the key begins
	start, end int // the value
}

func (m member) value(data []byte) json.RawMessage { return json.RawMessage(data[m.start:m.end]) }

// members lists the members of the object at off, in order; nil if there is no object.
func members(data []byte, off int) []member {
	var out []member
	walk(data, off, '{', func(i int) int {
		m := member{at: i}
		end := skipValue(data, i)
		if m.key = unquote(data[i:end]); end == i {
			return -1
		}
		m.start = skipSpace(data, skipSpace(data, end)+1)
		m.end = skipValue(data, m.start)
		out = append(out, m)
		return m.end
	})
	return out
}

// countMembers is how often a top-level key is given.
func countMembers(data []byte, key string) (n int) {
	for _, m := range members(data, 0) {
		if m.key == key {
			n++
		}
	}
	return n
}

// unquote is the text of a JSON string. Keys rarely hold an escape, and then cost nothing.
func unquote(quoted []byte) string {
	if len(quoted) >= 2 && bytes.IndexByte(quoted, '\\') < 0 && utf8.Valid(quoted) {
		return string(quoted[1 : len(quoted)-1])
	}
	var s string
	if json.Unmarshal(quoted, &s) != nil {
		return "" // cannot be: the text was found valid
	}
	return s
}

// elements lists the elements of the array at off; nil if there is no array.
func elements(data []byte, off int) []member {
	var out []member
	walk(data, off, '[', func(i int) int {
		out = append(out, member{at: i, start: i, end: skipValue(data, i)})
		return out[len(out)-1].end
	})
	return out
}

// walk calls item at the start of each item of the object or array at off; item returns where it
// ends, or a negative number to stop.
func walk(data []byte, off int, open byte, item func(i int) int) {
	i := skipSpace(data, off)
	if i >= len(data) || data[i] != open {
		return
	}
	for i = skipSpace(data, i+1); i < len(data) && data[i] != '}' && data[i] != ']'; i = skipSpace(data, i) {
		if i = item(i); i < 0 {
			return
		}
		if i = skipSpace(data, i); i < len(data) && data[i] == ',' {
			i++
		}
	}
}

func skipSpace(data []byte, i int) int {
	for i < len(data) && (data[i] == ' ' || data[i] == '\t' || data[i] == '\n' || data[i] == '\r') {
		i++
	}
	return i
}

// skipValue returns the offset behind the value at i.
func skipValue(data []byte, i int) int {
	depth := 0
	for i = skipSpace(data, i); i < len(data); i++ {
		switch data[i] {
		case '"':
			for i++; i < len(data) && data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
			if depth == 0 {
				return min(i+1, len(data))
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth <= 0 {
				return i + 1 + min(depth, 0)
			}
		case ',', ':', ' ', '\t', '\n', '\r':
			if depth == 0 {
				return i
			}
		}
	}
	return i
}

// locate finds the value at a JSON path such as "ipam.ranges[0].subnet"; ok is false when the
// configuration has no such place. Keys may hold a '.' ("cni.dev/..."): of several that fit the longest
// is taken, and of one given twice the last. A key in another case is found where no other fits, as Decode reads it.
func locate(data []byte, path string) (off int, ok bool) {
	if !json.Valid(data) {
		return 0, false
	}
	off = skipSpace(data, 0)
	for path != "" {
		var found bool
		if path[0] == '[' {
			off, path, found = locateElement(data, off, path)
		} else {
			off, path, found = locateMember(data, off, path)
		}
		if !found {
			return 0, false
		}
	}
	return off, true
}

func locateElement(data []byte, off int, path string) (int, string, bool) {
	number, rest, closed := strings.Cut(path[1:], "]")
	n, err := strconv.Atoi(number)
	els := elements(data, off)
	if !closed || err != nil || n < 0 || n >= len(els) {
		return 0, "", false
	}
	return els[n].start, strings.TrimPrefix(rest, "."), true
}

func locateMember(data []byte, off int, path string) (int, string, bool) {
	best, at := -1, 0
	other, otherAt := -1, 0
	for _, m := range members(data, off) {
		n := len(m.key)
		if n == 0 || n > len(path) || len(path) > n && path[n] != '.' && path[n] != '[' {
			continue
		}
		if path[:n] == m.key && n >= best {
			best, at = n, m.start
		} else if strings.EqualFold(path[:n], m.key) && n >= other && !strings.HasPrefix(path, "cni.dev/") {
			other, otherAt = n, m.start
		}
	}
	if best < 0 {
		best, at = other, otherAt
	}
	if best < 0 {
		return 0, "", false
	}
	return at, strings.TrimPrefix(path[best:], "."), true
}

// errorAt is an error about the value at a path of src, with its line and column if it is there.
func errorAt(op string, src []byte, code uint, path string, err error) *Error {
	e := &Error{Op: op, Path: path, Code: code, Err: err}
	if off, ok := locate(src, path); ok && path != "" {
		e.Line, e.Column = position(src, off)
	}
	return e
}
