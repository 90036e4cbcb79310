package link

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cnikit/cnikit/netconf"
)

// AllowedSysctls says which parameters a network may set: the lines of the file that the tuning plugin of the reference
// calls its allow-list. Who reads that file is not this package.
//
// A line is a regular expression that matches anywhere in the name, unless it begins with '^' and ends with '$'. There
// are no more than these, so that no plugin links package regexp: literals, '.', \ before a character that is no letter
// or digit, \d \w \s, classes such as [a-z_] and [^.], '*' '+' '?', groups and '|'. Blanks around a line, and empty lines, do
// not count.
//
// The zero value allows nothing, as an empty file does.
type AllowedSysctls struct{ lines []allowed }

type allowed struct {
	text  string
	match matcher
}

// ParseAllowedSysctls reads such a text. A line that is none of these expressions is an error with code 7 that names it.
func ParseAllowedSysctls(text string) (AllowedSysctls, error) {
	var list AllowedSysctls
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		p := &expression{left: line}
		m := p.alternatives()
		if p.err == nil && p.left != "" {
			p.fail("unexpected %q", p.left[:1])
		}
		if p.err != nil {
			return AllowedSysctls{}, &Error{Op: "sysctl allow-list", Name: line, Err: p.err}
		}
		list.lines = append(list.lines, allowed{line, m})
	}
	return list, nil
}

// Allows tells whether a name, as it stands in a configuration with IFNAME in it, is allowed: as it is written, or as it
// would be written with dots.
func (a AllowedSysctls) Allows(name string) bool {
	dotted := name
	if key, err := SysctlKey(name, "IFNAME"); err == nil && !strings.Contains(key, ".") {
		dotted = strings.ReplaceAll(key, "/", ".")
	}
	for _, one := range a.lines {
		if one.in(name) || one.in(dotted) {
			return true
		}
	}
	return false
}

// Check is an error with code 7 that names a parameter of s which is not allowed, and what is.
func (a AllowedSysctls) Check(s Sysctls) error {
	for _, name := range slices.Sorted(maps.Keys(s.Values)) {
		if !a.Allows(name) {
			texts := make([]string, len(a.lines))
			for i, one := range a.lines {
				texts[i] = one.text
			}
			return &Error{Op: "sysctl", Name: name, Err: netconf.Errorf(netconf.CodeInvalidNetworkConfig, "not in the allow-list: %q", texts)}
		}
	}
	return nil
}

func (one allowed) in(name string) bool {
	s := &subject{text: name}
	for i := range len(name) + 1 {
		if one.match(s, i, func(int) bool { return true }) {
			return true
		}
	}
	return false
}

// subject is a name that is looked at. An expression such as (a+)+$ has as many ways to fail as 2 to the power of the name's
// length, which who asks for the sysctl chooses: after so many tries nothing matches, and the name is refused.
type subject struct {
	text  string
	tries int
}

const maxTries = 100_000

// matcher tries to match s from i on, and asks then whether what follows matches from where it ended.
type matcher func(s *subject, i int, then func(int) bool) bool

// expression is what is left of a line to be read.
type expression struct {
	left string
	err  error
}

func (p *expression) fail(format string, args ...any) {
	if p.err == nil {
		p.err = netconf.Errorf(netconf.CodeInvalidNetworkConfig, "not an expression that is known here: "+format, args...)
	}
	p.left = ""
}

// take reads a byte if it is next.
func (p *expression) take(c byte) bool {
	if p.left == "" || p.left[0] != c {
		return false
	}
	p.left = p.left[1:]
	return true
}

func (p *expression) next() byte {
	if p.left == "" {
		p.fail("it ends too early")
		return 0
	}
	c := p.left[0]
	p.left = p.left[1:]
	return c
}

func (p *expression) alternatives() matcher {
	all := []matcher{p.sequence()}
	for p.take('|') {
		all = append(all, p.sequence())
	}
	return func(s *subject, i int, then func(int) bool) bool {
		for _, m := range all {
			if m(s, i, then) {
				return true
			}
		}
		return false
	}
}

func (p *expression) sequence() matcher {
	m := matcher(func(_ *subject, i int, then func(int) bool) bool { return then(i) })
	for p.left != "" && p.left[0] != '|' && p.left[0] != ')' {
		before, one := m, p.repeated()
		m = func(s *subject, i int, then func(int) bool) bool {
			return before(s, i, func(j int) bool { return one(s, j, then) })
		}
	}
	return m
}

// repeated reads an atom and how often it may come.
func (p *expression) repeated() matcher {
	m := p.atom()
	switch {
	case p.take('*'):
		return many(m)
	case p.take('+'):
		rest := many(m)
		return func(s *subject, i int, then func(int) bool) bool {
			return m(s, i, func(j int) bool { return rest(s, j, then) })
		}
	case p.take('?'):
		return func(s *subject, i int, then func(int) bool) bool { return m(s, i, then) || then(i) }
	}
	return m
}

// many matches any number of times; a round that took nothing is the last.
func many(m matcher) matcher {
	var again matcher
	again = func(s *subject, i int, then func(int) bool) bool {
		return m(s, i, func(j int) bool { return j > i && again(s, j, then) }) || then(i)
	}
	return again
}

func (p *expression) atom() matcher {
	switch c := p.next(); c {
	case '^':
		return func(_ *subject, i int, then func(int) bool) bool { return i == 0 && then(i) }
	case '$':
		return func(s *subject, i int, then func(int) bool) bool { return i == len(s.text) && then(i) }
	case '(':
		if p.take('?') && !(p.take(':')) {
			p.fail("(?")
		}
		m := p.alternatives()
		if !p.take(')') {
			p.fail("a group without its end")
		}
		return m
	case '.':
		return one(func(byte) bool { return true })
	case '[':
		return one(p.class())
	case '\\':
		return one(p.escaped())
	case '*', '+', '?', '{', '}', ']':
		p.fail("unexpected %q", string(c))
		return one(func(byte) bool { return false })
	default:
		return one(func(x byte) bool { return x == c })
	}
}

func one(is func(byte) bool) matcher {
	return func(s *subject, i int, then func(int) bool) bool {
		s.tries++
		return s.tries <= maxTries && i < len(s.text) && is(s.text[i]) && then(i+1)
	}
}

// escaped reads what stands behind a backslash.
func (p *expression) escaped() func(byte) bool {
	digit := func(x byte) bool { return x >= '0' && x <= '9' }
	letter := func(x byte) bool { return x|0x20 >= 'a' && x|0x20 <= 'z' }
	switch c := p.next(); {
	case c == 'd':
		return digit
	case c == 'w':
		return func(x byte) bool { return digit(x) || letter(x) || x == '_' }
	case c == 's':
		return func(x byte) bool { return strings.IndexByte(" \t\n\f\r", x) >= 0 }
	case digit(c) || letter(c):
		p.fail(`\%s`, string(c))
		fallthrough
	default:
		return func(x byte) bool { return x == c }
	}
}

// class reads what stands behind a '[', to its end.
func (p *expression) class() func(byte) bool {
	not := p.take('^')
	var parts []func(byte) bool
	for first := true; p.err == nil && (first || !p.take(']')); first = false {
		low := p.next()
		if low == '\\' {
			parts = append(parts, p.escaped())
			if strings.HasPrefix(p.left, "-") && !strings.HasPrefix(p.left, "-]") {
				p.fail("a range from an escape")
			}
			continue
		}
		if low == '[' && strings.HasPrefix(p.left, ":") {
			p.fail("[:")
		}
		high := low
		if len(p.left) > 1 && p.left[0] == '-' && p.left[1] != ']' {
			p.next()
			if high = p.next(); high == '\\' || high < low {
				p.fail("the range %s", fmt.Sprintf("%c-%c", low, high))
			}
		}
		parts = append(parts, func(x byte) bool { return low <= x && x <= high })
	}
	return func(x byte) bool {
		for _, in := range parts {
			if in(x) {
				return !not
			}
		}
		return not
	}
}
