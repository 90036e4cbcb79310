package netconf

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Args is CNI_ARGS: "K=V;K2=V2", each pair split at its first '='. Keys are case-sensitive. An
// unknown key is never an error: Kubernetes sends K8S_POD_* to every plugin, and a delegate gets
// what was meant for its caller.
type Args map[string]string

// ParseArgs reads CNI_ARGS. Empty pairs (a trailing or a doubled ';') are passed over; of a key given
// twice the last counts, as everywhere in the field. A pair without '=' or without a key, and an
// IgnoreUnknown that is not a boolean, are errors with code 4 that name the pair by its place and the key
// before it: its text may be the end of a token that holds a ';'.
func ParseArgs(s string) (Args, error) {
	args := Args{}
	var errs []error
	bad := func(format string, a ...any) {
		errs = append(errs, &Error{Op: "environment", Path: "CNI_ARGS", Code: CodeInvalidEnvironment, Err: fmt.Errorf(format, a...)})
	}
	before := ""
	for i, pair := range strings.Split(s, ";") {
		if pair == "" {
			continue
		}
		key, value, found := strings.Cut(pair, "=")
		switch {
		case !found:
			bad("pair %d%s has no '=': expected KEY=VALUE;KEY=VALUE, no ';' in a value", i+1, before)
		case key == "":
			bad("pair %d%s has no key: expected KEY=VALUE;KEY=VALUE", i+1, before)
		case key == "IgnoreUnknown" && !isBool(value):
			bad("pair %d, IgnoreUnknown: expected 1, true, 0 or false", i+1)
		default:
			args[key] = value
			before = " (behind " + quoteShort(key) + ")"
		}
	}
	return args, Join(errs...)
}

// SetArgs makes text the request's CNI_ARGS: Args is what ParseArgs reads of it, and ArgsText keeps its order. The error is
// that of ParseArgs; what could be read is set all the same.
func (r *Request) SetArgs(text string) error {
	args, err := ParseArgs(text)
	r.Args, r.argsText = args, text
	return err
}

// ArgsText is CNI_ARGS as a delegate gets it: the pairs of Args. Those of Parse's, or SetArgs', text are in its order, byte
// for byte, each key where it stood first with the value that it has now; then come those that were put into Args since,
// in the order of their keys. A new IgnoreUnknown goes before all, as in [Args.String].
func (r *Request) ArgsText() string {
	const ignore = "IgnoreUnknown"
	rest := maps.Clone(r.Args)
	var pairs []string
	for pair := range strings.SplitSeq(r.argsText, ";") {
		key, _, _ := strings.Cut(pair, "=")
		if value, there := rest[key]; there {
			pairs = append(pairs, key+"="+value)
			delete(rest, key)
		}
	}
	if value, there := rest[ignore]; there {
		pairs = slices.Insert(pairs, 0, ignore+"="+value)
		delete(rest, ignore)
	}
	if len(rest) > 0 {
		pairs = append(pairs, rest.String())
	}
	return strings.Join(pairs, ";")
}

// CheckArg says whether a pair can stand in CNI_ARGS and is read there as it is: a key is not empty and has no '=' and no
// ';', a value has no ';', which would begin another pair, and neither has a NUL, with which no program is started. The value
// is not in the error: it may be a token.
func CheckArg(key, value string) error {
	switch {
	case key == "":
		return errors.New("a pair has no key")
	case strings.ContainsAny(key, ";=\x00"):
		return fmt.Errorf("the key %s has a ';', a '=' or a NUL", quoteShort(key))
	case strings.ContainsAny(value, ";\x00"):
		return fmt.Errorf("the value of %s has a ';' or a NUL", quoteShort(key))
	case key == "IgnoreUnknown" && !isBool(value):
		return errors.New("IgnoreUnknown: expected 1, true, 0 or false")
	}
	return nil
}

// quoteShort quotes a name for an error; of one that is longer than any name it shows the beginning.
func quoteShort(s string) string {
	if len(s) > 64 {
		return strconv.Quote(s[:16]) + "..."
	}
	return strconv.Quote(s)
}

// isBool knows the spellings that upstream's types.UnmarshallableBool knows.
func isBool(s string) bool {
	switch strings.ToLower(s) {
	case "1", "true", "0", "false":
		return true
	}
	return false
}

// CheckName is the specification's rule for network names and container IDs (SPEC, sections 1
// and 2): a letter or digit first, then letters, digits, '_', '.' and '-'.
func CheckName(s string) error {
	if s == "" {
		return errors.New("missing")
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		alnum := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !alnum && (i == 0 || c != '_' && c != '.' && c != '-') {
			return fmt.Errorf("%s has an invalid character %q at position %d: expected a letter or digit, then letters, digits, '_', '.' or '-'", quoteShort(s), c, i+1)
		}
	}
	return nil
}

// CheckIfName says whether the kernel takes s as the name of a link, literally: at most 15 bytes, not
// "." or "..", no '/', ':' or blank (net/core/dev.c, dev_valid_name), no '%', which the kernel
// takes as a pattern ("eth%d" makes eth0), and neither "all" nor "default", which are folders of sysctls: the kernel
// refuses them late and without a reason (net/ipv4/devinet.c, sysctl_dev_name_is_allowed), and what a step writes to
// the sysctls of such an interface it writes for all of them. The kernel's blanks are bytes, and 0xa0 is one of them:
// "caf\u00e0" has it. What is not UTF-8 is refused because no result could name it.
func CheckIfName(s string) error {
	switch {
	case s == "":
		return errors.New("missing")
	case len(s) > 15:
		return fmt.Errorf("%s has %d bytes: a link name has at most 15", quoteShort(s), len(s))
	case s == "." || s == "..":
		return fmt.Errorf("%q is not a link name", s)
	case s == "all" || s == "default":
		return fmt.Errorf("%q is not a link name: the kernel calls the sysctls of all links so", s)
	case !utf8.ValidString(s):
		return fmt.Errorf("%q is not UTF-8", s)
	}
	for _, r := range s {
		if r < ' ' || r == 0x7f || unicode.IsSpace(r) || strings.ContainsRune("/:%", r) || strings.IndexByte(string(r), 0xa0) >= 0 {
			return fmt.Errorf("%q has an invalid character %q: a link name has no '/', ':', '%%' and no blank", s, r)
		}
	}
	return nil
}
