package skel

import (
	"slices"
	"strings"
)

// lookup returns a variable of an environment, "" if it is not there. Of two the last counts, as for exec.
func lookup(env []string, key string) string {
	for _, kv := range slices.Backward(env) {
		if v, ok := strings.CutPrefix(kv, key+"="); ok {
			return v
		}
	}
	return ""
}

// isTraceparent tells whether a value has the form of W3C Trace Context: version-trace-parent-flags in lower-case
// hexadecimal digits, "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01". What else stands in the variable is not
// put into a log. A later version may have more behind it, which is allowed up to 256 bytes.
func isTraceparent(s string) bool {
	const form = "00-00000000000000000000000000000000-0000000000000000-00"
	if len(s) < len(form) || len(s) > 256 || len(s) > len(form) && (s[:2] == "00" || s[len(form)] != '-') {
		return false
	}
	for i := range form {
		digit := s[i] >= '0' && s[i] <= '9' || s[i] >= 'a' && s[i] <= 'f'
		if form[i] == '-' && s[i] != '-' || form[i] != '-' && !digit {
			return false
		}
	}
	return s[:2] != "ff" && s[3:35] != form[3:35] && s[36:52] != form[36:52] && isPrintable(s)
}

// isPrintable tells whether a value of tracestate or baggage can be put into a log: printable ASCII, at most 8,192
// bytes (W3C Baggage).
func isPrintable(s string) bool {
	return s != "" && len(s) <= 8192 && strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) < 0
}
