package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/netconf"
)

// recorded is the call as plugins get it, under the name of the network that the container's record has: a runtime sends
// a DEL with the configuration of today, in which the network may have another name than at the ADD.
func (m multinet) recorded(req *netconf.Request) *netconf.Request {
	own := m.request(req)
	if m.records().Unattached(own) != nil { // it is there under this name
		return own
	}
	all, err := m.records().List("")
	if err != nil {
		return own // the DEL says so
	}
	for _, rec := range all {
		if rec.Err == nil && rec.ContainerID == own.ContainerID && rec.IfName == own.IfName {
			own.Network.Name = rec.Network
		}
	}
	return own
}

// otherNames makes the records that have another network's name count in a GC. Their networks are answered, and what
// they say that lives is added to the request's list, without which the networks' own GC would free it. One that is not in
// the list may be of a second network of this type, with pods and a GC of its own: it is detached if its container's
// namespace is gone, and lives else. unknown is of those that live and cannot be read: no network's GC may run then.
func (m multinet) otherNames(ctx context.Context, req *netconf.Request) (networks []*delegate.Network, errs []error, unknown error) {
	all, err := m.records().List("")
	if err != nil {
		return nil, nil, err
	}
	listed := slices.Clip(req.Network.ValidAttachments) // what is added below is not in it
	if listed == nil {
		return nil, nil, nil // Records.GC refuses that
	}
	for _, rec := range all {
		if rec.Network == req.Network.Name || strings.HasSuffix(rec.Path, asideEnding) {
			continue
		}
		lives := slices.Contains(listed, types.GCAttachment{ContainerID: rec.ContainerID, IfName: rec.IfName})
		bad := netconf.Join(append(rec.Bad, rec.Err)...)
		switch {
		case bad != nil && lives:
			unknown = netconf.Join(unknown, netconf.Errorf(netconf.CodeBadStore, "GC of the networks is left out, a living container's may be in %q: %w", rec.Path, bad))
		case rec.Err == nil && !lives && !rec.Busy && gone(rec.Netns):
			own := dead(req, rec.ContainerID, rec.IfName)
			own.Network.Name = rec.Network
			errs = append(errs, m.records().Del(ctx, m.plugins(), own))
		default:
			for _, a := range rec.Attachments {
				req.Network.ValidAttachments = append(req.Network.ValidAttachments, types.GCAttachment{ContainerID: rec.ContainerID, IfName: a.IfName})
			}
		}
		for _, a := range rec.Attachments {
			networks = append(networks, a.Network)
		}
	}
	return networks, errs, unknown
}

// gone tells whether a container's namespace is not there any more. Of one that is not known nobody can say.
func gone(netns string) bool {
	_, err := os.Lstat(netns)
	return netns != "" && errors.Is(err, fs.ErrNotExist)
}
