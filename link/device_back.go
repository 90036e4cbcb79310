package link

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"strings"
	"syscall"

	"github.com/cnikit/cnikit/netconf"
	"github.com/vishvananda/netlink"
)

// The way of a device back to the host.

// freeName is the pattern for the name of a device whose own is taken. The kernel puts the first free number in.
const freeName = "dev%d"

// Delete brings the device back, if it is the owner's, from the container, which may be nil, or have gone: of hardware the
// kernel has then given back what was in it, under a name of its choice; a virtual device has gone with it, which is no error.
// It gets its name, and the attributes that it had; where its name has been taken meanwhile it keeps another, with a warning.
//
// was is what Create has kept. Without it (nil) the device is found by its mark; it gets the name that its alias tells, and
// stays down, with the attributes that it has. So does one that the reference plugin has moved, if the claim is proved by prev.
func (d Device) Delete(ctx context.Context, host, container *NS, o Owner, was *DeviceWas) error {
	return d.bring(ctx, host, container, claim{Owner: o}, was)
}

func (d Device) bring(ctx context.Context, host, container *NS, c claim, was *DeviceWas) error {
	l, err := c.deviceInside(container, was)
	if err != nil {
		return err
	}
	if l != nil && was == nil {
		was = guessed(l)
	}
	if l != nil && !container.Is(host) {
		if l, err = d.leave(ctx, host, container, c.Owner, l, was); err != nil {
			return err
		}
	} else if l == nil {
		if l, err = d.returned(ctx, host, container, c, was); err != nil || l == nil {
			return err
		}
		if was == nil {
			was = guessed(l)
		}
	}
	return d.restore(ctx, host, l, was)
}

// deviceInside finds the attachment's device in a container, which may be nil: by the number that was kept, whatever has become
// of its name and labels; else by its mark; nil if it is not there.
func (c claim) deviceInside(container *NS, was *DeviceWas) (netlink.Link, error) {
	if container == nil {
		return nil, nil
	}
	if was.in(container) {
		if l, err := findIndex(container, was.Index); err != nil || l != nil {
			return l, err
		}
	}
	l, err := find(container, c.IfName)
	if err != nil || l != nil && c.ownsDevice(l) {
		return l, err
	}
	return c.markedDevice(container)
}

// in tells whether the device was moved into just this namespace, and not into one that had its path before.
func (w *DeviceWas) in(container *NS) bool {
	return w != nil && w.Index != 0 && w.Netns != 0 && w.Netns == cookie(container)
}

// ownsDevice is owns for a device: the alias must be that of one, or the name that the reference plugin leaves there, which the
// prevResult speaks for. Another kind of the attachment's is not moved to the host.
func (c claim) ownsDevice(l netlink.Link) bool {
	alias := l.Attrs().Alias
	if lab, ok := parseAlias(alias); ok {
		_, moved := lab.from()
		return moved && lab.of(c.Owner)
	}
	if ours, known := c.mark(l); known {
		return ours
	}
	return guessed(l).named() && c.owns(l)
}

// markedDevice finds the attachment's device in a namespace by its mark alone; nil if there is none.
func (c claim) markedDevice(n *NS) (netlink.Link, error) {
	links, err := whole(n.Handle().LinkList)
	if err != nil {
		return nil, &Error{Op: "link list", Err: err}
	}
	c.marked = true
	i := slices.IndexFunc(links, c.ownsDevice)
	if i < 0 {
		return nil, nil
	}
	return links[i], nil
}

// guessed is what can be told of a device without a record: the name that it had, by our alias or by that of the reference
// plugin, which is the name.
func guessed(l netlink.Link) *DeviceWas {
	name := l.Attrs().Alias
	if lab, ok := parseAlias(name); ok {
		name, _ = lab.from()
	}
	return &DeviceWas{Name: name}
}

// named tells whether the name that the device had is known: what a label says may be anything.
func (w *DeviceWas) named() bool {
	return w.Name != "" && len(w.Name) < 16 && w.Name != "." && w.Name != ".." && !strings.ContainsAny(w.Name, "/:% \t\n\v\f\r\x00")
}

// leave moves the device out of the container. It has its name of the host before it gets there, if that is free on both
// sides: daemons of the host that saw it come under another would take it for another.
func (d Device) leave(ctx context.Context, host, container *NS, o Owner, l netlink.Link, was *DeviceWas) (netlink.Link, error) {
	a := l.Attrs()
	if a.Flags&net.FlagUp != 0 {
		if err := alter(ctx, "link down", a.Name, func() error { return container.Handle().LinkSetDown(l) }); err != nil {
			return nil, err
		}
	}
	mark := change{alias: o.Alias(fromPrefix + was.Name), group: o.Group(), marked: true}
	if !was.named() {
		mark.alias = o.Alias(fromPrefix)
	}
	if o.Network == "" {
		mark.group, mark.alias = a.Group, a.Alias // not known: it was found by them, or by its number
	}
	if a.Alias != mark.alias || a.Group != mark.group { // somebody in the container has changed it
		if err := alter(ctx, "link mark", a.Name, func() error { return setLink(container, a.Index, mark) }); err != nil {
			return nil, err
		}
	}
	name, err := was.free(host)
	if err != nil {
		return nil, err
	}
	now := a.Name
	if name != freeName && name != now {
		err := alter(ctx, "link rename", now, func() error { return setLink(container, a.Index, change{name: name}) })
		switch {
		case err == nil:
			now = name
		case !errors.Is(err, syscall.EEXIST): // taken in the container: it is renamed where it gets to
			return nil, err
		}
	}
	return d.cross(ctx, host, container, o, now, name, a)
}

// free is the name that the device gets: its own, or if that is taken on the host, or not known, one that is free.
func (w *DeviceWas) free(host *NS) (string, error) {
	if !w.named() {
		return freeName, nil
	}
	there, err := find(host, w.Name)
	if err == nil && there != nil {
		return freeName, nil
	}
	return w.Name, err
}

// cross is the move. A name that was taken in this moment is given up; so are alternative names that the host has.
func (d Device) cross(ctx context.Context, host, container *NS, o Owner, now, name string, a *netlink.LinkAttrs) (netlink.Link, error) {
	move := func(name string) error {
		return alter(ctx, "link move", now, func() error { return setLink(container, a.Index, change{to: host, name: name}) })
	}
	err := move(name)
	if errors.Is(err, syscall.EEXIST) {
		name = freeName
		still, lookErr := findIndex(container, a.Index)
		switch {
		case lookErr != nil:
			return nil, lookErr
		case still == nil:
			err = nil // it was moved, and not renamed
		default:
			if err = d.dropNames(ctx, host, container, still); err == nil {
				err = move(name)
			}
		}
	}
	if err != nil {
		return nil, err
	}
	l, err := find(host, name)
	if name == freeName || err == nil && (l == nil || l.Attrs().Alias != o.Alias(fromPrefix+name)) {
		l, err = claim{Owner: o}.markedDevice(host)
	}
	return mustBe(l, err, name)
}

// dropNames takes the alternative names off a device that the host has: with them it could not be moved.
func (d Device) dropNames(ctx context.Context, host, container *NS, l netlink.Link) error {
	for _, alt := range l.Attrs().AltNames {
		there, err := find(host, alt)
		if err != nil {
			return err
		}
		if there == nil {
			continue
		}
		d.warn("the device loses an alternative name, which a link of the host has", "device", l.Attrs().Name, "name", alt)
		if err := alter(ctx, "link altname del", alt, func() error { return dropAltName(container, l, alt) }); err != nil {
			return err
		}
	}
	return nil
}

func (d Device) warn(msg string, args ...any) {
	if d.Warn != nil {
		d.Warn(msg, args...)
	}
}

// returned finds a device on the host that is not in the container: the kernel has given it back, or an Add or Del was killed
// on the way; nil if there is none.
func (d Device) returned(ctx context.Context, host, container *NS, c claim, was *DeviceWas) (netlink.Link, error) {
	l, err := c.deviceOutside(host, was)
	if l != nil || err != nil || was == nil || was.Index == 0 {
		return l, err
	}
	if container == nil && !c.marked && was.Kind == deviceKind {
		l, err = awaited(ctx, func() (netlink.Link, error) { return c.deviceOutside(host, was) })
		if l != nil || err != nil {
			return l, err
		}
	}
	d.warn("the device is neither in the container nor on the host", "device", was.Name, "kind", was.Kind)
	return nil, nil
}

// deviceOutside finds the attachment's device on the host by its mark; or, if somebody in the container has taken that away, by
// the hardware address that it was made with.
func (c claim) deviceOutside(host *NS, was *DeviceWas) (netlink.Link, error) {
	l, err := c.markedDevice(host)
	if l != nil || err != nil || was == nil || was.Index == 0 || bytes.Trim(was.Perm, "\x00") == nil {
		return l, err
	}
	links, err := whole(host.Handle().LinkList)
	if err != nil {
		return nil, &Error{Op: "link list", Err: err}
	}
	links = slices.DeleteFunc(links, func(l netlink.Link) bool {
		a := l.Attrs()
		_, labelled := parseAlias(a.Alias)
		return labelled || a.Name == was.Name || l.Type() != was.Kind || !bytes.Equal(a.PermHWAddr, was.Perm)
	})
	if len(links) != 1 {
		return nil, nil
	}
	return links[0], nil
}

// restore gives a device that is back on the host its name and its attributes. The mark goes last: until then a Delete after a
// kill finds it.
func (d Device) restore(ctx context.Context, host *NS, l netlink.Link, was *DeviceWas) error {
	l, err := d.rename(ctx, host, l, was)
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(was.Sysctls)) {
		name := strings.Replace(key, ifNamePart, l.Attrs().Name, 1)
		switch err := host.Sysctl(ctx, name, was.Sysctls[key]); {
		case hopeless(err):
			d.warn("the device cannot be given back what it had", "sysctl", name, "error", err.Error())
		case err != nil && !Gone(err):
			return err
		}
	}
	for _, a := range was.tune().attributes(l) {
		switch err := a.apply(ctx, host, l); {
		case hopeless(err), errors.Is(err, syscall.EBUSY):
			d.warn("the device cannot be given back what it had", "device", l.Attrs().Name, "error", err.Error())
		case err != nil:
			return err
		}
	}
	if was.Up && l.Attrs().Flags&net.FlagUp == 0 {
		if err := up(ctx, host, l); err != nil {
			return err
		}
	}
	mark := change{alias: was.Alias, group: was.Group, marked: true}
	return alter(ctx, "link unmark", l.Attrs().Name, func() error { return setLink(host, l.Attrs().Index, mark) })
}

// rename gives a device its name on the host, which it may have already.
func (d Device) rename(ctx context.Context, host *NS, l netlink.Link, was *DeviceWas) (netlink.Link, error) {
	a := l.Attrs()
	if a.Name == was.Name {
		return l, nil
	}
	name, err := was.free(host)
	if err != nil {
		return nil, err
	}
	if name != freeName {
		if a.Flags&net.FlagUp != 0 {
			if err := alter(ctx, "link down", a.Name, func() error { return host.Handle().LinkSetDown(l) }); err != nil {
				return nil, err
			}
		}
		err = alter(ctx, "link rename", a.Name, func() error { return setLink(host, a.Index, change{name: name}) })
		if err != nil && !errors.Is(err, syscall.EEXIST) {
			return nil, err
		}
	}
	if name == freeName || err != nil {
		d.warn("the device is back under another name: its own has been taken on the host, or is not known", "device", was.Name, "name", a.Name)
	}
	l, err = findIndex(host, a.Index)
	return mustBe(l, err, a.Name)
}

// tune is what the device is given back; nothing of one that was guessed.
func (w *DeviceWas) tune() Tune {
	if w.Kind == "" {
		return Tune{}
	}
	t := Tune{MTU: w.MTU, Promisc: &w.Promisc, AllMulti: &w.AllMulti, TxQLen: &w.TxQLen}
	if len(w.MAC) > 0 {
		t.MAC = netconf.MAC(w.MAC)
	}
	return t
}
