package main

import (
	"context"
	"errors"
	"os"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/netconf"
)

// Del detaches the container from all that its record says, backwards; it asks nobody else.
func (m multinet) Del(ctx context.Context, req *netconf.Request) error {
	own := m.request(req)
	return netconf.Join(m.records().Del(ctx, m.plugins(), own), m.dropDevices(ctx, req))
}

// Check asks all networks that the record has, each with the result that its ADD had.
func (m multinet) Check(ctx context.Context, req *netconf.Request) error {
	return m.records().Check(ctx, m.plugins(), m.request(req))
}

// GC detaches what the runtime no longer has, and lets each network collect what is nobody's.
func (m multinet) GC(ctx context.Context, req *netconf.Request) error {
	if err := m.awaitReady(ctx); err != nil {
		return err
	}
	return m.records().GC(ctx, m.plugins(), m.request(req))
}

// Status says whether a pod could be attached now: to the default networks, by what the API server says.
func (m multinet) Status(ctx context.Context, req *netconf.Request) error {
	return nil
}

// unattached says that the container is attached already.
func (m multinet) unattached(ctx context.Context, req *netconf.Request) error {
	rec, err := m.records().Load(ctx, req)
	switch {
	case err == nil:
		return netconf.Errorf(netconf.CodeExists, "%q: %w, a DEL is due first", rec.Path, netconf.ErrExists)
	case errors.Is(err, delegate.ErrNoRecord):
		return nil
	}
	return err
}

var _ = os.Stat
