package selection

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cnikit/cnikit/netconf"
)

// check says whether the element can name a definition: the API server takes a namespace that is a DNS label, and a
// name that is labels with dots between. It is what keeps "../" out of the URL, and of the name of a file.
func (e Element) check() error {
	if e.Namespace != "" && !isLabel(e.Namespace) {
		return fmt.Errorf("namespace %q: expected a DNS label, lower-case letters, digits and '-'", clip(e.Namespace))
	}
	if e.Name == "" {
		return errors.New("no name")
	}
	if len(e.Name) > 253 || !allLabels(e.Name) {
		return fmt.Errorf("name %q: expected a DNS name, lower-case letters, digits, '-' and '.'", clip(e.Name))
	}
	return nil
}

func allLabels(name string) bool {
	for label := range strings.SplitSeq(name, ".") {
		if !isLabel(label) {
			return false
		}
	}
	return true
}

func isLabel(s string) bool {
	alnum := func(c byte) bool { return c >= 'a' && c <= 'z' || c >= '0' && c <= '9' }
	for i := range len(s) {
		if !alnum(s[i]) && s[i] != '-' {
			return false
		}
	}
	return len(s) > 0 && len(s) <= 63 && alnum(s[0]) && alnum(s[len(s)-1])
}

func checkInterface(name string) error {
	switch err := netconf.CheckIfName(name); {
	case err != nil:
		return fmt.Errorf("interface %q: %w", clip(name), err)
	case name == "lo":
		return errors.New(`interface "lo" is every container's own`)
	}
	return nil
}

// Names gives each attachment its interface's name, in the order of wanted, which has "" where none is asked for. The
// first is the default network's and gets ifname, CNI_IFNAME. The names that are asked for are reserved first; the others
// are net<n> by their place in the whole list, or with the next number that is free. It fails where two want one name.
func Names(ifname string, wanted []string) ([]string, error) {
	names := slices.Clone(wanted)
	if len(names) > 0 {
		names[0] = ifname
	}
	taken := map[string]int{"lo": -1}
	for i, name := range names {
		if name == "" {
			continue
		}
		if at, is := taken[name]; is {
			return nil, invalid("interface %q of network %d is taken by %s", clip(name), i, holder(at))
		}
		taken[name] = i
	}
	for i, name := range names {
		for n := i; name == ""; n++ {
			if _, is := taken[fmt.Sprintf("net%d", n)]; !is {
				name = fmt.Sprintf("net%d", n)
			}
		}
		names[i], taken[name] = name, i
	}
	return names, nil
}

func holder(at int) string {
	switch at {
	case -1:
		return "the container's loopback"
	case 0:
		return "the default network"
	}
	return fmt.Sprintf("network %d", at)
}

// Fence keeps pods to the definitions of their own namespace.
type Fence struct {
	On     bool     // false: every definition may be used
	Global []string // namespaces whose definitions all may use
}

// Check says, with both namespaces, that a pod may not use the element's definition. also are further namespaces that
// are allowed: multusNamespace, for the default network.
func (f Fence) Check(pod string, e Element, also ...string) error {
	if !f.On || e.Namespace == pod || slices.Contains(f.Global, e.Namespace) || slices.Contains(also, e.Namespace) {
		return nil
	}
	return invalid("network %q: namespace %q is not the pod's, %q, nor one that all may use (namespaceIsolation is on)", e, e.Namespace, pod)
}

// Routes says that two of the elements want the default route of one family. An empty list of gateways keeps the
// network's own, of whatever family: no other element may have a default-route beside it.
func Routes(elements []Element) error {
	var v4, v6 *Element
	take := func(by **Element, e *Element, family string) error {
		if *by != nil && *by != e {
			return invalid("default-route: networks %q and %q both want the default route of %s", *by, e, family)
		}
		*by = e
		return nil
	}
	for i := range elements {
		e := &elements[i]
		if e.Gateways != nil && len(e.Gateways) == 0 {
			if err := netconf.Join(take(&v4, e, "IPv4"), take(&v6, e, "IPv6")); err != nil {
				return err
			}
		}
		for _, g := range e.Gateways {
			by, family := &v4, "IPv4"
			if g.Is6() {
				by, family = &v6, "IPv6"
			}
			if err := take(by, e, family); err != nil {
				return err
			}
		}
	}
	return nil
}
