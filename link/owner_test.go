//go:build linux

package link_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/vishvananda/netlink"
)

func TestOwnerAlias(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 243)
	for _, test := range []struct {
		owner      link.Owner
		role, want string
	}{
		{link.Owner{Network: "net", ContainerID: "a", IfName: "eth0"}, "", "cni:net:a:eth0"},
		{link.Owner{Network: "net", ContainerID: "a", IfName: "eth0"}, "host", "cni:net:a:eth0:host"},
		{link.Owner{Network: "net", ContainerID: long[:242], IfName: "eth0"}, "", "cni:net:" + long[:242] + ":eth0"}, // 255 bytes
		{link.Owner{Network: "net", ContainerID: long, IfName: "eth0"}, "", "cni:net:~"},
		{link.Owner{Network: long, ContainerID: long, IfName: "eth0"}, "host", "cni:~"},
	} {
		got := test.owner.Alias(test.role)
		if len(got) > 255 || !strings.HasPrefix(got, test.want) || !strings.HasSuffix(got, "eth0") && !strings.HasSuffix(got, "eth0:host") {
			t.Errorf("%d bytes, %q, expected %q", len(got), got, test.want)
		}
	}
}

// Different attachments have different groups and names, also those whose parts only run together the same way
// and those that differ in their end alone.
func TestOwnerHashes(t *testing.T) {
	t.Parallel()
	names, groups := map[string]link.Owner{}, map[uint32]int{}
	note := func(o link.Owner, role string) {
		name := o.HostName(role)
		if len(name) != 15 {
			t.Errorf("%q has %d bytes", name, len(name))
		}
		if other, ok := names[name]; ok {
			t.Errorf("%+v and %+v are both %q", o, other, name)
		}
		names[name] = o
		if g := o.Group(); g == 0 || g > 1<<31-1 {
			t.Errorf("group %d", g)
		}
		groups[o.Group()]++
	}
	note(link.Owner{Network: "ab", ContainerID: "c", IfName: "eth0"}, "")
	note(link.Owner{Network: "a", ContainerID: "bc", IfName: "eth0"}, "")
	note(link.Owner{Network: "a", ContainerID: "b", IfName: "ceth0"}, "")
	note(link.Owner{Network: "a", ContainerID: "b", IfName: "c"}, "eth0")
	for i := range 20000 {
		note(link.Owner{Network: "net", ContainerID: fmt.Sprintf("%064d", i), IfName: "eth0"}, "host")
	}
	if len(groups) < 20000 {
		t.Errorf("%d groups of 20,000 attachments", len(groups)) // 0.1 collisions are to be expected
	}
}

// TestOwnsByItsMarkAlone: the alias decides, and only where there is none the group.
func TestOwnsByItsMarkAlone(t *testing.T) {
	t.Parallel()
	o := link.Owner{Network: "net", ContainerID: "a", IfName: "eth0"}
	anyNetwork := link.Owner{ContainerID: "a", IfName: "eth0"}
	long := link.Owner{Network: "net", ContainerID: strings.Repeat("x", 250), IfName: "eth0"}
	for _, test := range []struct {
		name  string
		owner link.Owner
		alias string
		group uint32
		want  bool
	}{
		{"alias", o, o.Alias(""), 0, true},
		{"alias of a role", o, o.Alias(link.HostRole), 0, true},
		{"hashed alias", long, long.Alias(""), 0, true},
		{"group", o, "", o.Group(), true},
		{"neither", o, "", 0, false},
		{"another group", o, "", o.Group() + 1, false},
		{"the group and somebody's text", o, "uplink", o.Group(), false},
		{"the group and another container's alias", o, "cni:net:b:eth0", o.Group(), false},
		{"another interface", o, "cni:net:a:eth1", 0, false},
		{"another network", o, "cni:net2:a:eth0", 0, false},
		{"shared by the network", o, "cni:net", 0, false},
		{"any network's alias", anyNetwork, "cni:net2:a:eth0:host", 0, true},
		{"any network, another container", anyNetwork, "cni:net:b:eth0", 0, false},
		{"any network, a group", anyNetwork, "", o.Group(), false},
	} {
		l := &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Alias: test.alias, Group: test.group}}
		if got := test.owner.Owns(l); got != test.want {
			t.Errorf("%s: %v, expected %v", test.name, got, test.want)
		}
	}
}

func TestErrorCode(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  error
		want uint
	}{
		{syscall.EEXIST, netconf.CodeExists},
		{syscall.EOPNOTSUPP, netconf.CodeNotSupported},
		{syscall.EAFNOSUPPORT, netconf.CodeNotSupported},
		{link.ErrNotSupported, netconf.CodeNotSupported},
		{syscall.EBUSY, netconf.CodeTryAgainLater},
		{syscall.EINVAL, netconf.CodeInvalidNetworkConfig},
		{syscall.EPERM, netconf.CodeIOFailure},
		{syscall.EACCES, netconf.CodeIOFailure},
		{syscall.EROFS, netconf.CodeIOFailure},
		{netlink.ErrDumpInterrupted, netconf.CodeTryAgainLater},
		{context.DeadlineExceeded, netconf.CodeTryAgainLater},
		{netconf.ErrDifferent, netconf.CodeDifferent},
		{netconf.Errorf(netconf.CodeExhausted, "none: %w", syscall.EEXIST), netconf.CodeExhausted},
		{errors.New("something else"), netconf.CodeInternal},
	} {
		err := fmt.Errorf("outer: %w", &link.Error{Op: "link add", Name: "eth0", Err: test.err})
		if got := netconf.Code(err); got != test.want {
			t.Errorf("%v: code %d, expected %d", err, got, test.want)
		}
		if got := errors.Is(err, link.ErrNotSupported); got != (test.want == netconf.CodeNotSupported) {
			t.Errorf("%v is ErrNotSupported: %v", err, got)
		}
		if !errors.Is(err, test.err) {
			t.Errorf("%v is not %v", err, test.err)
		}
	}
	if errors.Is(&link.Error{Op: "x", Err: syscall.EEXIST}, netconf.ErrExists) {
		t.Error("the kernel's EEXIST alone says that nothing was changed")
	}
}

func TestGone(t *testing.T) {
	t.Parallel()
	for _, err := range []error{syscall.ENOENT, syscall.ENODEV, syscall.ENXIO, syscall.ESRCH, syscall.EADDRNOTAVAIL, netlink.LinkNotFoundError{}} {
		if !link.Gone(fmt.Errorf("outer: %w", &link.Error{Op: "x", Err: err})) {
			t.Errorf("%v is not gone", err)
		}
	}
	for _, err := range []error{nil, syscall.EPERM, syscall.EINVAL, syscall.EEXIST, errors.New("x")} {
		if link.Gone(err) {
			t.Errorf("%v is gone", err)
		}
	}
}
