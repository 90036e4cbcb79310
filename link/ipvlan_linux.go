package link

import (
	"context"
	"errors"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// nsidAttr is NETNSA_NSID of linux/net_namespace.h: the number of a namespace in another.
const nsidAttr = 1

// sharing finds an ipvlan on a parent, nil if there is none: one of those in the parent's namespace, or in a namespace
// that has a number there. All of a parent have the same mode and flag, so the first will do. A parent's own
// message does not tell whether it has any.
func sharing(n *NS, parent netlink.Link) (*netlink.IPVlan, error) {
	if l, ok := parent.(*netlink.IPVlan); ok {
		return l, nil // the new one is made on its parent
	}
	index := parent.Attrs().Index
	here, err := ipvlans(n, -1)
	if err != nil {
		return nil, err
	}
	for _, l := range here {
		if l.ParentIndex == index && l.NetNsID < 0 {
			return l, nil
		}
	}
	numbers, err := nsids(n)
	if err != nil {
		return nil, err
	}
	for _, id := range numbers {
		there, err := ipvlans(n, id)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPERM) {
			continue // it has gone, or is not for us to look into
		} else if err != nil {
			return nil, err
		}
		for _, l := range there {
			if l.ParentIndex != index {
				continue
			}
			// Of which namespace that is the index the kernel says by a number too, as it is here.
			own, err := n.Handle().GetNetNsIdByFd(n.Fd())
			if err != nil {
				return nil, &Error{Op: "number of namespace", Name: n.Path(), Err: err}
			}
			if l.NetNsID == own {
				return l, nil
			}
		}
	}
	return nil, nil
}

// ipvlans lists those of a namespace, by its number in n, -1 for n itself. The kernel sends no others.
func ipvlans(n *NS, id int) ([]*netlink.IPVlan, error) {
	msgs, err := ask(n, unix.RTM_GETLINK, unix.RTM_NEWLINK, func(req *nl.NetlinkRequest) {
		req.AddData(nl.NewIfInfomsg(unix.AF_UNSPEC))
		info := nl.NewRtAttr(unix.IFLA_LINKINFO, nil)
		info.AddRtAttr(nl.IFLA_INFO_KIND, nl.NonZeroTerminated(ipvlanKind))
		req.AddData(info)
		if id >= 0 {
			req.AddData(nl.NewRtAttr(unix.IFLA_TARGET_NETNSID, nl.Uint32Attr(uint32(id))))
		}
	})
	if err != nil {
		return nil, &Error{Op: "link list", Err: err}
	}
	var out []*netlink.IPVlan
	for _, m := range msgs {
		l, err := netlink.LinkDeserialize(nil, m)
		if err != nil {
			return nil, &Error{Op: "link list", Err: err}
		}
		if l, ok := l.(*netlink.IPVlan); ok { // a kernel that has not loaded the module yet sends all
			out = append(out, l)
		}
	}
	return out, nil
}

// nsids lists the numbers of the namespaces that have one in n.
func nsids(n *NS) ([]int, error) {
	msgs, err := ask(n, unix.RTM_GETNSID, unix.RTM_NEWNSID, func(req *nl.NetlinkRequest) { req.AddData(nl.NewRtGenMsg()) })
	if err != nil {
		return nil, &Error{Op: "list the numbers of namespaces in", Name: n.Path(), Err: err}
	}
	var out []int
	for _, m := range msgs {
		attrs, err := nl.ParseRouteAttr(m[nl.DeserializeRtGenMsg(m).Len():])
		if err != nil {
			return nil, &Error{Op: "list the numbers of namespaces in", Name: n.Path(), Err: err}
		}
		for _, a := range attrs {
			if a.Attr.Type == nsidAttr && len(a.Value) >= 4 {
				out = append(out, int(int32(nl.NativeEndian().Uint32(a.Value))))
			}
		}
	}
	return out, nil
}

// ask makes a dump that netlink's handles do not have.
func ask(n *NS, question, answer int, fill func(*nl.NetlinkRequest)) (msgs [][]byte, err error) {
	err = n.Do(func() (err error) {
		msgs, err = whole(func() ([][]byte, error) {
			req := nl.NewNetlinkRequest(question, unix.NLM_F_DUMP)
			fill(req)
			return req.Execute(unix.NETLINK_ROUTE, uint16(answer))
		})
		return err
	})
	return msgs, err
}

// introduce gives the container's namespace a number in the parent's, by which sharing finds what is in it. The number
// ends with the namespace; the kernel has no way to take it back before.
func introduce(ctx context.Context, n, container *NS) error {
	if n.Is(container) {
		return nil
	}
	id, err := n.Handle().GetNetNsIdByFd(container.Fd())
	if err != nil {
		return &Error{Op: "number of namespace", Name: container.Path(), Err: err}
	}
	if id >= 0 {
		return nil
	}
	err = alter(ctx, "number namespace", container.Path(), func() error { return n.Handle().SetNetNsIdByFd(container.Fd(), -1) })
	if errors.Is(err, unix.EEXIST) {
		return nil // another call was faster
	}
	return err
}
