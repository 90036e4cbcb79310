package hostlocal

import (
	"context"
	"errors"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/cnikit/cnikit/netconf"
)

// Add takes an address from each set, the next one that is free after the last one given, or the one that is asked
// for, and appends addresses and routes to req.Result, without an interface. An attachment that has an address of the
// ranges already gets no second one: the error Is netconf.ErrExists, and nothing is changed.
//
// Codes: 7 for ranges, routes and requests that make no sense, told before anything is written; 101 (the error Is
// ErrExhausted) if all addresses of a set are taken; 101 if the one that is asked for is; 105 if the store cannot be used;
// 11 if the lock was not given in time. What fails half-way takes nothing.
func (c Config) Add(ctx context.Context, req *netconf.Request) error {
	all, want, err := c.wanted(req)
	if err != nil {
		return netconf.Unchanged(err)
	}
	dns, err := c.dns(req)
	if err != nil {
		return netconf.Unchanged(err)
	}
	dir, err := c.dir(req)
	if err != nil {
		return netconf.Unchanged(err)
	}
	s, err := open(ctx, req, dir, true)
	if err != nil {
		return netconf.Unchanged(err)
	}
	defer s.close()
	who, old := ownerOf(req.ContainerID, req.IfName)
	if err := s.vacant(ctx, all, who, old); err != nil {
		return netconf.Unchanged(err)
	}
	given, err := s.give(ctx, all, want, who)
	if err != nil {
		return err
	}
	for i, a := range given {
		r := all.all[i][all.all[i].index(a)]
		req.AddIP(-1, ipNet(a, r.subnet), r.gateway.AsSlice())
	}
	for _, r := range c.Routes {
		req.AddRoute(r)
	}
	if !dns.IsEmpty() {
		req.Result.DNS = dns
	}
	return nil
}

// vacant is an error if the attachment has an address of the ranges.
func (s *store) vacant(ctx context.Context, all sets, who ...string) error {
	if err := s.settle(ctx, false); err != nil {
		return err
	}
	held, err := s.held(ctx, who...)
	if err != nil {
		return err
	}
	for _, a := range slices.SortedFunc(maps.Keys(held), netip.Addr.Compare) {
		if all.contains(a) {
			return netconf.Errorf(netconf.CodeExists, "%w: the attachment has the address %s", netconf.ErrExists, a)
		}
	}
	return nil
}

// give takes an address from each set, or from none.
func (s *store) give(ctx context.Context, all sets, want []netip.Addr, who string) ([]netip.Addr, error) {
	var given []netip.Addr
	err := s.newLease(ctx, who)
	for i := 0; err == nil && i < len(all.all); i++ {
		if i > 0 {
			err = s.newLease(ctx, who) // each lease is a file of its own
		}
		var a netip.Addr
		if err == nil {
			a, err = s.place(ctx, all, i, want[i])
		}
		if err == nil {
			given = append(given, a)
			s.index.add(who, a, s.made)
			err = errors.Join(s.setLast(ctx, strconv.Itoa(i), a), s.discard(ctx, newName))
		}
	}
	if err == nil {
		if err = s.finish(ctx); err == nil {
			return given, nil
		}
	}
	undo := context.WithoutCancel(ctx)
	errs := []error{err, s.discard(undo, newName)}
	for _, a := range given {
		errs = append(errs, s.release(undo, a, who))
	}
	return nil, netconf.Join(append(errs, s.finish(undo))...)
}

// place gives the new lease an address of a set.
func (s *store) place(ctx context.Context, all sets, n int, want netip.Addr) (netip.Addr, error) {
	last := s.last(strconv.Itoa(n))
	for tries := 0; ; tries++ {
		a, ok := want, want.IsValid()
		if !ok {
			a, ok = all.choose(s.index, n, last)
		}
		if !ok || s.index.err != nil {
			if s.index.trusted {
				return a, netconf.Errorf(netconf.CodeExhausted, "%w in %s (network %q)", ErrExhausted, all.all[n], filepath.Base(s.dir))
			}
			if err := s.rebuildAround(ctx); err != nil {
				return a, err
			}
			continue
		}
		taken, err := s.name(ctx, a)
		if err != nil || !taken {
			return a, err
		}
		switch who, _, err := s.holder(a); {
		case err == nil && who == "" || s.index.trusted && !want.IsValid(): // garbage, or the index is wrong
			s.wrong = s.index.trusted
			if err := s.rebuildAround(ctx); err != nil {
				return a, err
			}
		case want.IsValid():
			return a, netconf.Errorf(netconf.CodeExhausted, "the address %s is asked for, and is taken", want)
		case tries == 64:
			if err := s.learn(); err != nil {
				return a, err
			}
		default:
			s.index.take(a)
		}
	}
}

// rebuildAround is rebuild, but for the new lease.
func (s *store) rebuildAround(ctx context.Context) error {
	content, err := os.ReadFile(s.path(newName))
	if err == nil {
		err = s.rebuild(ctx, nil)
	}
	if err == nil {
		err = s.newLease(ctx, string(content))
	}
	return err
}

// learn notes which addresses are taken by the names of the files alone.
func (s *store) learn() error {
	names, err := s.names(-1)
	for _, name := range names {
		if a, ok := addressOf(name); ok {
			s.index.take(a)
		}
	}
	return err
}

// Check finds the attachment's leases: one for each set, those of req.Prev that lie in the ranges, and no others.
func (c Config) Check(ctx context.Context, req *netconf.Request) error {
	all, err := c.sets(req)
	if err != nil {
		return err
	}
	dir, err := c.dir(req)
	if err != nil {
		return err
	}
	s, err := open(ctx, req, dir, false)
	if err != nil {
		return err
	}
	held := map[netip.Addr]string{}
	if s != nil {
		defer s.close()
		if held, err = s.find(ctx, req, len(all.all)); err == nil {
			err = s.finish(ctx)
		}
		if err != nil {
			return err
		}
	}
	var errs []error
	for _, one := range all.all {
		if !slices.ContainsFunc(slices.Collect(maps.Keys(held)), one.contains) {
			errs = append(errs, netconf.Errorf(netconf.CodeDifferent, "%w: the attachment has no address of %s", netconf.ErrDifferent, one))
		}
	}
	prev := previous(req)
	for _, a := range prev {
		if _, ok := held[a]; !ok && all.contains(a) {
			errs = append(errs, netconf.Errorf(netconf.CodeDifferent, "%w: the address %s of the prevResult is not leased to the attachment", netconf.ErrDifferent, a))
		}
	}
	for a := range held {
		if req.Prev != nil && all.contains(a) && !slices.Contains(prev, a) {
			errs = append(errs, netconf.Errorf(netconf.CodeDifferent, "%w: the attachment has %s, which is not in the prevResult", netconf.ErrDifferent, a))
		}
	}
	return netconf.Join(errs...)
}

// previous lists the addresses of the prevResult.
func previous(req *netconf.Request) (found []netip.Addr) {
	if req.Prev == nil {
		return nil
	}
	for _, ip := range req.Prev.IPs {
		if a, ok := netip.AddrFromSlice(ip.Address.IP); ok {
			found = append(found, a.Unmap())
		}
	}
	return found
}

// find lists the attachment's leases. Where the index is not trusted those that it and the prevResult know are enough
// if they are as many as a configuration gives (need; 0: that is not known); else all leases are read.
func (s *store) find(ctx context.Context, req *netconf.Request, need int) (map[netip.Addr]string, error) {
	if err := s.settle(ctx, false); err != nil {
		return nil, err
	}
	who, old := ownerOf(req.ContainerID, req.IfName)
	held, err := s.held(ctx, who)
	if err != nil {
		return nil, err
	}
	if !s.index.trusted {
		for _, a := range previous(req) {
			if is, _, err := s.holder(a); err == nil && is == who {
				held[a] = who
			}
		}
		if need == 0 || len(held) < need {
			if err := s.settle(ctx, true); err != nil {
				return nil, err
			}
			if held, err = s.held(ctx, who); err != nil {
				return nil, err
			}
		}
	}
	if len(held) == 0 {
		return s.held(ctx, old)
	}
	return held, nil
}

// Del releases all that the attachment has. It needs the network's name, dataDir, and nothing else. With a name that is
// none it releases nothing, and warns: no ADD was served with it.
func (c Config) Del(ctx context.Context, req *netconf.Request) error {
	dir, err := c.dir(req)
	if err != nil {
		if req.Warn != nil { // a request made by hand
			req.Warn("no addresses are released: " + err.Error())
		}
		return nil
	}
	s, err := open(ctx, req, dir, false)
	if err != nil || s == nil {
		return err
	}
	defer s.close()
	all, err := c.sets(req)
	if err != nil {
		all = sets{} // it was another configuration that the addresses came from
	}
	held, err := s.find(ctx, req, len(all.all))
	if err != nil {
		return err
	}
	var errs []error
	for _, a := range slices.SortedFunc(maps.Keys(held), netip.Addr.Compare) {
		errs = append(errs, s.release(ctx, a, held[a]))
	}
	return netconf.Join(append(errs, s.finish(ctx))...)
}

// GC releases all that is held for none of the attachments that live. A list that is missing, or has an entry
// without a container or interface, releases nothing: code 7.
func (c Config) GC(ctx context.Context, req *netconf.Request) error {
	const key = "cni.dev/valid-attachments"
	if req.Network.ValidAttachments == nil {
		return req.Invalid(key, "missing: without the list of what lives nothing is released")
	}
	live := map[string]bool{}
	for _, at := range req.Network.ValidAttachments {
		if at.ContainerID == "" || at.IfName == "" {
			return req.Invalid(key, "an entry without containerID or ifname: nothing is released")
		}
		who, old := ownerOf(at.ContainerID, at.IfName)
		live[who], live[old] = true, true
	}
	dir, err := c.dir(req)
	if err != nil {
		return err
	}
	s, err := open(ctx, req, dir, false)
	if err != nil || s == nil {
		return err
	}
	defer s.close()
	return netconf.Join(s.rebuild(ctx, func(who string) bool { return !live[who] }), s.finish(ctx))
}

// Status is an error with code 50 if an ADD would find no address, or a store that cannot be used.
func (c Config) Status(ctx context.Context, req *netconf.Request) error {
	all, _, err := c.wanted(req)
	if err != nil {
		return err
	}
	dir, err := c.dir(req)
	if err != nil {
		return err
	}
	s, err := open(ctx, req, dir, true)
	if err == nil {
		defer s.close()
		err = s.roomy(ctx, all)
	}
	if err != nil && netconf.Code(err) != netconf.CodeTryAgainLater {
		return netconf.Errorf(netconf.CodePluginNotAvailable, "%w", err)
	}
	return err
}

// roomy is an error unless each set has a free address, and the disk room for the files of an ADD.
func (s *store) roomy(ctx context.Context, all sets) error {
	if err := writable(s.dir); err != nil {
		return s.unusable(err)
	}
	if err := s.settle(ctx, false); err != nil {
		return err
	}
	for i, one := range all.all {
		a, ok := all.choose(s.index, i, s.last(strconv.Itoa(i)))
		if ok && !s.index.trusted {
			_, ok, err := s.holder(a)
			if err == nil && ok {
				continue
			}
		}
		if !s.index.trusted {
			if err := s.settle(ctx, true); err != nil {
				return err
			}
			_, ok = all.choose(s.index, i, netip.Addr{})
		}
		if !ok {
			return netconf.Errorf(netconf.CodeExhausted, "%w in %s (network %q)", ErrExhausted, one, filepath.Base(s.dir))
		}
	}
	// A lease and a last address of each set, of which a file system gives each a block or a page. Zeros are nobody's lease.
	err := s.newLease(ctx, strings.Repeat("\x00", min(2*len(all.all), 16)*os.Getpagesize()))
	if err == nil { // the index is written while it is there, and gets none of the room that it needs
		err = netconf.Join(s.finish(ctx), s.discard(ctx, newName))
	}
	return netconf.Join(err, s.finish(ctx))
}
