package delegate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/cnikit/cnikit/netconf"
)

// GC removes what is left of attachments that are not among req.Network.ValidAttachments, the runtime's list. Records of
// the request's network that are not in the list get their DEL; then GC runs of each network that was in any of the
// records, and of those in also, with what lives of it: what the other records say, and the runtime's list itself. So
// an interface that only this folder knows of, net1 say, is kept while its container lives.
//
// A file that is no record and of nothing that lives is moved aside, as by Del. A record that a call is at work on counts as living. If one that lives cannot be read, no network's GC runs, for
// it would destroy what that container has, and the error, with code 105 or 11, says whose it is. Errors are joined.
// A list that is nil is an error with code 7.
func (r Records) GC(ctx context.Context, plugins Registry, req *netconf.Request, also ...*Network) error {
	req = req.As(netconf.GC)
	living := req.Network.ValidAttachments
	if living == nil {
		return errNoList(req.Network.Name)
	}
	all, err := r.List(req.Network.Name)
	if err != nil {
		return err
	}
	errs := []error{r.sweepAll(ctx, req.Network.Name)}
	c := collection{networks: also, lives: map[string][]types.GCAttachment{}, readable: map[types.GCAttachment]bool{}}
	budget := split(ctx, len(all)+1) // the networks' is the last part
	for i, rec := range all {
		rec.find(req.Network.Name, living)
		if !rec.Busy && !rec.lives(living) && !strings.HasSuffix(rec.Path, badEnding) {
			part, cancel := budget.part(ctx, len(all)-i+1)
			gone, err := r.delStale(part, plugins, req, rec)
			cancel()
			errs = append(errs, err)
			if gone {
				c.add(rec, false)
				continue
			}
		}
		c.add(rec, rec.Busy || rec.lives(living))
	}
	if err := c.unknown(living); err != nil {
		return netconf.Join(append(errs, err)...)
	}
	return netconf.Join(append(errs, collect(ctx, plugins, req, c.networks, c.lives))...)
}

// collection is what the records say of networks.
type collection struct {
	networks []*Network
	lives    map[string][]types.GCAttachment // by the network's name
	readable map[types.GCAttachment]bool     // whose record can be read
	bad      []Record                        // cannot be
}

func (c *collection) add(rec Record, lives bool) {
	own := types.GCAttachment{ContainerID: rec.ContainerID, IfName: rec.IfName}
	if rec.Err == nil && len(rec.Bad) == 0 {
		c.readable[own] = true
	} else {
		c.bad = append(c.bad, rec)
	}
	for _, a := range rec.Attachments {
		c.networks = append(c.networks, a.Network)
		if lives {
			c.lives[a.Network.Name] = append(c.lives[a.Network.Name], types.GCAttachment{ContainerID: rec.ContainerID, IfName: a.IfName})
		}
	}
}

// unknown is the error of records that cannot be read and may be of what lives: of a busy one, and one that the list has.
func (c *collection) unknown(living []types.GCAttachment) error {
	var errs []error
	for _, rec := range c.bad {
		own := types.GCAttachment{ContainerID: rec.ContainerID, IfName: rec.IfName}
		why := rec.Err
		if why == nil {
			why = netconf.Join(rec.Bad...)
		}
		switch {
		case c.readable[own]: // and what was moved aside is of an earlier life
		case rec.Busy:
			errs = append(errs, netconf.Errorf(netconf.CodeTryAgainLater, "GC of the networks is left out, %q is being written: %w", rec.Path, why))
		case rec.lives(living):
			errs = append(errs, netconf.Errorf(netconf.CodeBadStore, "GC of the networks is left out, a living container's may be in %q: %w", rec.Path, why))
		}
	}
	return netconf.Join(errs...)
}

// delStale detaches what a record says; gone tells that it was one, and not what a call is at work on by now.
func (r Records) delStale(ctx context.Context, plugins Registry, req *netconf.Request, rec Record) (gone bool, err error) {
	own := detached(req.As(netconf.Del))
	own.ContainerID, own.IfName, own.Netns = rec.ContainerID, rec.IfName, oldNetns(rec.Netns)
	if own.ContainerID == "" {
		return false, r.disposeNobodys(ctx, own, rec)
	}
	return true, r.Del(ctx, plugins, own)
}

// find looks for the owner of a record that does not tell it among what lives: a long name ends in a hash.
func (rec *Record) find(network string, living []types.GCAttachment) {
	key := strings.TrimSuffix(strings.TrimSuffix(filepath.Base(rec.Path), badEnding), recordEnding)
	for _, a := range living {
		if rec.ContainerID == "" && (owner{network, a.ContainerID, a.IfName}).key() == key {
			rec.Network, rec.ContainerID, rec.IfName = network, a.ContainerID, a.IfName
		}
	}
}

// disposeNobodys moves a file aside that is no record, and by its name not that of anything that lives. It is held and read
// for that: a DEL and an ADD may have made another one of it.
func (r Records) disposeNobodys(ctx context.Context, req *netconf.Request, rec Record) error {
	j, err := r.holdFile(ctx, req, &journal{path: rec.Path})
	if j != nil {
		defer j.release()
	}
	var bad damage
	if err == nil {
		var now Record
		now, err = readRecord(j.f, rec.Path)
		if is := (owner{now.Network, now.ContainerID, now.IfName}); err == nil && is.key()+recordEnding != filepath.Base(rec.Path) {
			err = damage{fmt.Errorf("it is of network %q, container %q, interface %q", is.Network, is.ContainerID, is.IfName)}
		}
	}
	switch {
	case errors.As(err, &bad):
		args := []any{"error", (&unusable{rec.Path, err}).Error()}
		if err := r.setAside(ctx, j); err != nil {
			args = append(args, "aside", err.Error())
		}
		warn(req, "a file is no record, and nobody's that lives", args...)
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return nil
	}
	return err
}

// oldNetns is the namespace for the DEL of a container that is gone. One under /proc is named by a process's number,
// which may be another process's by now, and its interfaces those of a living container.
func oldNetns(path string) string {
	if strings.HasPrefix(path, "/proc/") {
		return ""
	}
	return path
}
