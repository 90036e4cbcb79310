package link

import (
	"fmt"

	"github.com/cnikit/cnikit/netconf"
)

// choices are what a mode or flag of a kind can be, in the order in which an error lists them: the name in a
// configuration and netlink's number, where it has one. The first is the default, whose value in Go is "".
type choices[M ~string, K comparable] []struct {
	name   string
	number K
}

// name is the name of a value as in a configuration.
func (c choices[M, K]) name(m M) string {
	if m == "" {
		return c[0].name
	}
	return string(m)
}

// parse reads a name; no text is the default. Another is an error with code 7 that lists the names.
func (c choices[M, K]) parse(text []byte, into *M) error {
	if len(text) == 0 {
		*into = ""
		return nil
	}
	name, err := netconf.OneOf(text, c.names()...)
	if err != nil {
		return err
	}
	if *into = M(name); name == c[0].name {
		*into = ""
	}
	return nil
}

func (c choices[M, K]) names() []string {
	var names []string
	for _, known := range c {
		names = append(names, known.name)
	}
	return names
}

// kernel is netlink's number of a value. One that was not read by parse may be none, which is an error with code 7.
func (c choices[M, K]) kernel(what string, m M) (number K, err error) {
	for _, known := range c {
		if c.name(m) == known.name {
			return known.number, nil
		}
	}
	return number, netconf.Errorf(netconf.CodeInvalidNetworkConfig, "unknown %s %q", what, m)
}

// value is the one that a link has; one that no configuration can ask for keeps its number.
func (c choices[M, K]) value(number K) M {
	for i, known := range c {
		switch {
		case known.number != number:
		case i == 0:
			return ""
		default:
			return M(known.name)
		}
	}
	return M(fmt.Sprint(number))
}
