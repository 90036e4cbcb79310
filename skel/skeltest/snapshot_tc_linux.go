package skeltest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// queues lists the queueing disciplines that somebody has given to a link; the line of the link has the one at its root
// only, and of that the kind. Those that the kernel gives by itself have no handle.
func queues() (s Snapshot, err error) {
	all, err := netlink.QdiscList(nil)
	for again := 0; errors.Is(err, netlink.ErrDumpInterrupted) && again < 10; again++ {
		all, err = netlink.QdiscList(nil)
	}
	if errors.Is(err, unix.EOPNOTSUPP) {
		return nil, nil // a kernel without any
	} else if err != nil {
		return nil, fmt.Errorf("list queueing disciplines: %w", err)
	}
	links := map[int]string{}
	for _, q := range all {
		a := q.Attrs()
		if a.Handle == 0 {
			continue
		}
		if links[a.LinkIndex] == "" {
			l, err := netlink.LinkByIndex(a.LinkIndex)
			if errors.As(err, new(netlink.LinkNotFoundError)) {
				continue // it has gone meanwhile
			} else if err != nil {
				return nil, fmt.Errorf("the link of a queueing discipline: %w", err)
			}
			links[a.LinkIndex] = l.Attrs().Name
		}
		s = append(s, fmt.Sprintf("qdisc: %s dev %s parent %s", q.Type(), links[a.LinkIndex], netlink.HandleStr(a.Parent)))
		parents := []uint32{a.Handle}
		if q.Type() == "clsact" {
			parents = []uint32{netlink.HANDLE_MIN_INGRESS, netlink.HANDLE_MIN_EGRESS}
		}
		classes, handles, err := classes(a.LinkIndex, links[a.LinkIndex], a.Handle)
		if err != nil {
			return nil, err
		}
		s = append(s, classes...)
		for _, parent := range append(parents, handles...) {
			filters, err := filters(a.LinkIndex, links[a.LinkIndex], parent)
			if err != nil {
				return nil, err
			}
			s = append(s, filters...)
		}
	}
	return s, nil
}

// classes lists those that somebody has given to a queueing discipline, and their handles: of htb, hfsc, drr and qfq. The
// classes of other kinds come with it, or with the traffic, and have no filters.
func classes(index int, link string, of uint32) (s Snapshot, handles []uint32, err error) {
	all, err := dumpTc(unix.RTM_GETTCLASS, unix.RTM_NEWTCLASS, &nl.TcMsg{Family: nl.FAMILY_ALL, Ifindex: int32(index)})
	if err != nil {
		return nil, nil, fmt.Errorf("list classes of %q: %w", link, err)
	}
	for _, c := range all {
		if c.Handle>>16 == of>>16 && slices.Contains([]string{"htb", "hfsc", "drr", "qfq"}, c.kind) {
			s = append(s, fmt.Sprintf("class: %s dev %s parent %s classid %s", c.kind, link, netlink.HandleStr(c.Parent), netlink.HandleStr(c.Handle)))
			handles = append(handles, c.Handle)
		}
	}
	return s, handles, nil
}

// tc is a class or a filter.
type tc struct {
	*nl.TcMsg
	kind string
}

// dumpTc lists classes or filters; none where the link, or the queueing discipline, has gone meanwhile.
func dumpTc(get, answer int, of *nl.TcMsg) (list []tc, err error) {
	request := nl.NewNetlinkRequest(get, unix.NLM_F_DUMP)
	request.AddData(of)
	all, err := request.Execute(unix.NETLINK_ROUTE, uint16(answer))
	for again := 0; errors.Is(err, netlink.ErrDumpInterrupted) && again < 10; again++ {
		all, err = request.Execute(unix.NETLINK_ROUTE, uint16(answer))
	}
	if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EINVAL) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	for _, m := range all {
		one := tc{TcMsg: nl.DeserializeTcMsg(m)}
		attrs, err := nl.ParseRouteAttr(m[one.Len():])
		if err != nil {
			return nil, err
		}
		for _, attr := range attrs {
			if attr.Attr.Type == nl.TCA_KIND {
				one.kind = nl.BytesToString(attr.Value)
				list = append(list, one)
			}
		}
	}
	return list, nil
}

// filters lists those of a queueing discipline, or of a class of it, by kind and priority. Of what a filter matches
// nothing is shown: each kind has its own form.
func filters(index int, link string, parent uint32) (s Snapshot, err error) {
	all, err := dumpTc(unix.RTM_GETTFILTER, unix.RTM_NEWTFILTER, &nl.TcMsg{Family: nl.FAMILY_ALL, Ifindex: int32(index), Parent: parent})
	if err != nil {
		return nil, fmt.Errorf("list filters of %q: %w", link, err)
	}
	for _, f := range all {
		s = append(s, fmt.Sprintf("filter: %s dev %s parent %s priority %d", f.kind, link, netlink.HandleStr(parent), f.Info>>16))
	}
	return s, nil
}
