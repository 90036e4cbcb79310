package link

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cnikit/cnikit/netconf"
	"github.com/vishvananda/netlink"
)

// Sysctls sets parameters below /proc/sys/net in the container's namespace. Names are written as for sysctl(8): where
// the first separator is a '.', the parts stand between dots, and a '/' in a part is a '.' ("net.ipv4.conf.eth0/7.rp_filter");
// where it is a '/', the parts stand between slashes and a '.' is itself. The part IFNAME is the name of the interface.
//
// They are set in this order: what sets others along (ip_forward, conf/all), the defaults, the rest by name. DEL, and the
// rollback, give back those of the interface itself; others may be what another attachment of the container asked for
// too, and go with its namespace.
type Sysctls struct {
	Interface string            // what IFNAME stands for; default: CNI_IFNAME
	Values    map[string]string // by name; a value without line breaks
}

// Name is "sysctls".
func (Sysctls) Name() string { return "sysctls" }

// SysctlKey reads a parameter's name and returns it with slashes ("net/ipv4/conf/eth0.7/rp_filter"), ifname in the
// place of IFNAME. A name that leads anywhere but below net is an error with code 7.
func SysctlKey(name, ifname string) (string, error) {
	key := name
	if i := strings.IndexAny(name, "./"); i >= 0 && name[i] == '.' {
		key = strings.Map(func(r rune) rune {
			switch r {
			case '.':
				return '/'
			case '/':
				return '.'
			}
			return r
		}, name)
	}
	parts := strings.Split(key, "/")
	for i, part := range parts {
		if part == "IFNAME" {
			parts[i] = ifname
		}
	}
	key = strings.Join(parts, "/")
	err := checkSysctl(key)
	if err == nil && strings.ContainsFunc(key, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		err = netconf.Errorf(netconf.CodeInvalidNetworkConfig, "expected a name without blanks")
	}
	if err != nil {
		return "", &Error{Op: "sysctl", Name: name, Err: err}
	}
	return key, nil
}

// checkSysctl refuses a key that leaves /proc/sys/net: only there does the thread's namespace count.
func checkSysctl(key string) error {
	parts := strings.Split(key, "/")
	if len(parts) < 3 || parts[0] != "net" {
		return netconf.Errorf(netconf.CodeInvalidNetworkConfig, "expected net/PART/.../NAME")
	}
	for _, part := range parts {
		if part == "" || part == "." || part == ".." {
			return netconf.Errorf(netconf.CodeInvalidNetworkConfig, "expected net/PART/.../NAME without empty parts, %q or %q", ".", "..")
		}
	}
	return nil
}

// setting is one parameter, by its key.
type setting struct{ key, value string }

// Valid is an error with code 7 for names and values that cannot be, all together. It looks at nothing else.
func (s Sysctls) Valid() error {
	_, err := s.settings("IFNAME")
	return err
}

// settings lists the parameters in the order in which they are set. Errors have code 7 and are reported together.
func (s Sysctls) settings(ifname string) ([]setting, error) {
	var list []setting
	var errs []error
	bad := func(name, format string, args ...any) {
		errs = append(errs, &Error{Op: "sysctl", Name: name, Err: netconf.Errorf(netconf.CodeInvalidNetworkConfig, format, args...)})
	}
	for _, name := range slices.Sorted(maps.Keys(s.Values)) {
		value := s.Values[name]
		key, err := SysctlKey(name, ifname)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		i := slices.IndexFunc(list, func(o setting) bool { return o.key == key })
		switch {
		case strings.TrimSpace(value) == "" || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
			bad(name, "value %q: expected a text of one line", value)
		case i < 0:
			list = append(list, setting{key, value})
		case !sameValue(list[i].value, value):
			bad(name, "is given twice, as %q and as %q", list[i].value, value)
		}
	}
	slices.SortStableFunc(list, func(a, b setting) int {
		return cmp.Or(cmp.Compare(rank(a.key), rank(b.key)), cmp.Compare(a.key, b.key))
	})
	return list, netconf.Join(errs...)
}

// rank is the place in the order: what changes others along comes first.
func rank(key string) int {
	switch {
	case key == "net/ipv4/ip_forward", strings.Contains(key, "/all/"):
		return 0
	case strings.Contains(key, "/default/"):
		return 1
	}
	return 2
}

// sameValue compares as the kernel reads: it writes a tab where a blank was given, and 16 for 0x10.
func sameValue(a, b string) bool {
	return slices.EqualFunc(strings.Fields(a), strings.Fields(b), func(a, b string) bool {
		x, errX := strconv.ParseInt(a, 0, 64)
		y, errY := strconv.ParseInt(b, 0, 64)
		return a == b || errX == nil && errY == nil && x == y
	})
}

// Ensure sets the parameters that are not as they should be. One that this kernel does not have, or not in this
// namespace, is an error with code 103; a name or value that cannot be one has code 7, before any change.
func (s Sysctls) Ensure(ctx context.Context, n *NS, ifname string) error {
	list, err := s.settings(ifname)
	if err != nil {
		return err
	}
	_, err = setAll(ctx, n, list)
	return err
}

// setAll sets the parameters, and tells which of them the kernel has rounded: a time in milliseconds to its clock's ticks.
func setAll(ctx context.Context, n *NS, list []setting) (rounded map[string]string, err error) {
	err = n.Do(func() error { // one visit for all
		for _, s := range list {
			have, err := n.ReadSysctl(s.key)
			if err == nil && sameValue(have, s.value) {
				continue
			}
			if err == nil || errors.Is(err, fs.ErrPermission) {
				err = n.Sysctl(ctx, s.key, s.value)
			}
			if err != nil {
				return absent(s.key, err)
			}
			if have, err = n.ReadSysctl(s.key); err == nil && !sameValue(have, s.value) {
				if rounded == nil {
					rounded = map[string]string{}
				}
				rounded[s.key] = have
			}
		}
		return nil
	})
	return rounded, err
}

// absent says of a parameter that is not there that the kernel lacks it.
func absent(key string, err error) error {
	if Gone(err) {
		return &Error{Op: "sysctl", Name: key, Err: netconf.Errorf(netconf.CodeNotSupported, "there is no such parameter in the container's namespace: %w", err)}
	}
	return err
}

// Verify compares the parameters; all differences are reported together, and each Is netconf.ErrDifferent. Numbers and
// blanks are compared as the kernel takes them. What can be written alone is not looked at.
func (s Sysctls) Verify(_ context.Context, n *NS, ifname string) error {
	return s.verify(n, ifname, nil)
}

func (s Sysctls) verify(n *NS, ifname string, rounded map[string]string) error {
	list, err := s.settings(ifname)
	if err != nil {
		return err
	}
	var errs []error
	for _, s := range list {
		have, err := n.ReadSysctl(s.key)
		switch {
		case errors.Is(err, fs.ErrPermission):
			err = nil
		case err != nil && Gone(err):
			err = different(s.key, "the sysctl", s.value, "not there")
		case err == nil && !sameValue(have, s.value) && have != rounded[s.key]:
			err = different(s.key, "the sysctl", s.value, have)
		}
		errs = append(errs, err)
	}
	return netconf.Join(errs...)
}

// written is what is kept for DEL: the interface's own parameters as they were.
type written struct {
	linkID  // another one of the same name is left alone
	Was     map[string]string
	Rounded map[string]string // what the kernel has made of a value, for CHECK
}

func (s Sysctls) key(req *netconf.Request) string { return "link.sysctls." + ifName(req, s.Interface) }

// Add is Ensure. A second one is an error that Is netconf.ErrExists.
func (s Sysctls) Add(ctx context.Context, req *netconf.Request) error {
	if len(s.Values) == 0 {
		return nil
	}
	n, list, was, err := s.prepare(req)
	if err != nil {
		return netconf.Unchanged(err)
	}
	if was.Rounded, err = setAll(ctx, n, list); err != nil || was.Rounded == nil {
		return err
	}
	return keep(req, s.key(req), was)
}

// prepare looks, and writes down how the interface's own parameters are.
func (s Sysctls) prepare(req *netconf.Request) (n *NS, list []setting, was written, err error) {
	name := ifName(req, s.Interface)
	if list, err = s.settings(name); err != nil {
		return nil, nil, was, err
	}
	n, l, err := begin(req, s.key(req), "sysctls of", name)
	if err != nil {
		return nil, nil, was, err
	}
	was = written{linkID: idOf(n, l), Was: map[string]string{}}
	for _, x := range list {
		have, err := n.ReadSysctl(x.key)
		switch {
		case errors.Is(err, fs.ErrPermission): // it can be written alone
		case err != nil:
			return nil, nil, was, absent(x.key, err)
		case !sameValue(have, x.value) && slices.Contains(strings.Split(x.key, "/"), name):
			was.Was[x.key] = have
		}
	}
	return n, list, was, keep(req, s.key(req), was)
}

// Check is Verify; what the kernel has rounded at ADD is right.
func (s Sysctls) Check(_ context.Context, req *netconf.Request) error {
	if len(s.Values) == 0 {
		return nil
	}
	n, err := Container(req)
	if err != nil {
		return err
	}
	var made written
	if _, err := kept(req, s.key(req), &made); err != nil {
		return err
	}
	return s.verify(n, ifName(req, s.Interface), made.Rounded)
}

// Del gives back the interface's own parameters, as far as it is still there. What the kernel refuses is a warning.
func (s Sysctls) Del(ctx context.Context, req *netconf.Request) error {
	var old written
	return undo(req, s.key(req), ifName(req, s.Interface), &old, &old.linkID, func(n *NS, _ netlink.Link) error {
		var errs []error
		for _, key := range slices.Sorted(maps.Keys(old.Was)) {
			switch err := n.Sysctl(ctx, key, old.Was[key]); {
			case hopeless(err):
				warn(req, "the parameter cannot be given back what it had", "sysctl", key, "error", err.Error())
			case !Gone(err):
				errs = append(errs, err)
			}
		}
		return netconf.Join(errs...)
	})
}
