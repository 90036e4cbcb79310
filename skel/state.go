package skel

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/state"
)

// attachment is whose call it is: what its lock and its state are filed under.
func (c *core) attachment(req *netconf.Request) state.Attachment {
	return state.Attachment{Plugin: c.name, Network: req.Network.Name, ContainerID: req.ContainerID, IfName: req.IfName}
}

// recorder is what becomes the request's State.
func (c *core) recorder(ctx context.Context, req *netconf.Request) netconf.Recorder {
	store := state.Store{Dir: c.runDir, Warn: req.Warn}
	switch req.Command {
	case netconf.GC:
		stale, err := store.Stale(ctx, c.name, req.Network.Name, req.Network.ValidAttachments)
		return &staleState{noState{req.Command}, stale, err}
	case netconf.Status:
		return noState{req.Command}
	}
	return store.Open(ctx, c.attachment(req), req.Command)
}

// named gives a DEL that names no network, since its configuration no longer decodes, that of the record which the plugin
// keeps for the container and interface: what a step has saved is then found, and what carries the network's name too.
func (c *core) named(ctx context.Context, req *netconf.Request) {
	if req.Command != netconf.Del || req.State != nil || netconf.CheckName(req.Network.Name) == nil {
		return
	}
	records, err := state.Store{Dir: c.runDir}.Find(ctx, c.name, req.ContainerID, req.IfName)
	switch {
	case err != nil:
		req.Warn("the DEL names no network: what is kept for the attachment is not found, and stays until GC", "error", err.Error())
		return
	case len(records) == 0:
		return
	case len(records) > 1:
		req.Warn("the DEL names no network, and something is kept for several: it stays until GC", "networks", networks(records))
		return
	}
	name := records[0].Attachment().Network
	req.Warn("the DEL names no network: goes on with the one that something is kept for", "found", name)
	if config, err := netconf.Patch(req.Config, "name", quoted(name)); err == nil { // else it is no JSON
		req.Config = config
		req.Network, err = netconf.ParseNetwork(config)
		if err != nil && req.Warnings() == nil { // Parse has said it
			req.Warn("goes on: " + err.Error())
		}
	}
	req.Network.Name = name
}

func networks(records []*state.Record) string {
	var names []string
	for _, r := range records {
		names = append(names, r.Attachment().Network)
	}
	return strings.Join(names, " ")
}

// noState is the State of a call that is of no attachment.
type noState struct{ command netconf.Command }

func (n noState) Save(key string, _ []byte) error {
	return netconf.Errorf(netconf.CodeInternal, "state %q: %s is of no attachment whose state it could be", key, n.command)
}
func (noState) Load(string) ([]byte, error) { return nil, nil }
func (noState) Forget(string) error         { return nil }

// staleState is the State of a GC: it lists those of the attachments that are no more, see Collector.
type staleState struct {
	noState
	records []*state.Record
	err     error
}

var _ netconf.StaleRecorder = (*staleState)(nil)

// Each calls f with what is kept for each attachment that the runtime does not list as alive, and goes on after an
// error.
func (s *staleState) Each(f func(containerID, ifname string, kept netconf.Recorder) error) error {
	errs := []error{s.err}
	for _, r := range s.records {
		if of := r.Attachment(); of.ContainerID != "" { // else the record is damaged, and nothing can be read from it
			errs = append(errs, f(of.ContainerID, of.IfName, r))
		}
	}
	return netconf.Join(errs...)
}

// undo drops what the steps of an ADD that was undone have saved.
func undo(req *netconf.Request) {
	if r, ok := req.State.(*state.Record); ok {
		if err := protect(req, "state", r.Undo); err != nil {
			req.Warn("the ADD was undone, its state was not", "error", err.Error())
		}
	}
}

// forget drops what a step saved and did not forget, once the attachment is gone. A file that stays all the same
// fails no DEL, which would be called again and again: GC takes it.
func forget(req *netconf.Request) {
	if r, ok := req.State.(*state.Record); ok {
		if err := protect(req, "state", r.Remove); err != nil {
			req.Warn("the attachment is gone, its state is not", "error", err.Error())
		}
	}
}

var errHeld = errors.New("the lock is held")

// forgetStale drops the records of attachments that are no more, when all steps have collected what was left of
// them. One whose lock is held is being made, or taken away, right now.
func (c *core) forgetStale(ctx context.Context, req *netconf.Request) {
	s, ok := req.State.(*staleState)
	if !ok {
		return
	}
	errs := []error{s.err}
	now, end := context.WithCancelCause(context.WithoutCancel(ctx))
	end(errHeld) // nothing is waited for
	for _, r := range s.records {
		unlock, err := lock(now, filepath.Join(c.runDir, r.Key()+".lock"))
		switch {
		case err == nil:
			errs = append(errs, protect(req, "state", r.Remove))
			unlock()
		case !errors.Is(err, errHeld):
			errs = append(errs, fmt.Errorf("lock: %w", err))
		}
	}
	errs = append(errs, c.dropLocks(ctx, now, req))
	if err := netconf.Join(errs...); err != nil {
		req.Warn("attachments are gone, their state is not", "error", err.Error())
	}
}

// dropLocks removes what killed calls have left of their locks: the files of attachments of the network that are no more,
// if nobody has the lock; now is a context that has ended, so that none is waited for.
func (c *core) dropLocks(ctx, now context.Context, req *netconf.Request) error {
	const ending = ".lock"
	living := map[string]bool{}
	for _, a := range req.Network.ValidAttachments {
		living[state.Attachment{Plugin: c.name, Network: req.Network.Name, ContainerID: a.ContainerID, IfName: a.IfName}.Key()] = true
	}
	files, err := os.ReadDir(c.runDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var errs []error
	for _, f := range files {
		key, ok := strings.CutSuffix(f.Name(), ending)
		if !ok || living[key] || !f.Type().IsRegular() || !strings.HasPrefix(key, c.name+":"+req.Network.Name+":") {
			continue
		}
		err := netconf.Before(context.WithoutCancel(ctx), "lock remove "+f.Name())
		if err == nil {
			var unlock func()
			if unlock, err = lock(now, filepath.Join(c.runDir, f.Name())); err == nil {
				unlock() // which removes it
			}
		}
		if !errors.Is(err, errHeld) {
			errs = append(errs, err)
		}
	}
	return netconf.Join(errs...)
}
