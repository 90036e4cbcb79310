// Package meta is a plugin of the kind Meta for the suite's own tests: it makes nothing itself and has the plugin of its
// key "delegate" called, on a network of the same name. What it has had called it writes down before: DEL, CHECK and GC go by
// that alone, so that a configuration which no longer says who was called does no harm.
package meta

import (
	"context"
	"encoding/json"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

type config struct {
	Delegate json.RawMessage `json:"delegate" doc:"the configuration of the plugin that makes the interface"`
}

// Plugin is the plugin, which keeps its records in dir.
func Plugin(dir string) skel.Plugin[config] {
	return skel.Plugin[config]{
		Name: "meta-plugin", About: "has another plugin called", Kind: skel.Meta,
		Validate: func(req *netconf.Request, c *config) error {
			if len(c.Delegate) == 0 {
				return req.Invalid("delegate", "missing")
			}
			return nil
		},
		Steps: func(req *netconf.Request, c *config) skel.Steps {
			network := &delegate.Network{Name: req.Network.Name, CNIVersion: req.Network.CNIVersion, Plugins: []json.RawMessage{c.Delegate}}
			return skel.Steps{step{delegate.Records{Dir: dir}, delegate.Set{Attachments: []delegate.Attachment{{Network: network, IfName: req.IfName}}}}}
		},
	}
}

type step struct {
	records delegate.Records
	set     delegate.Set
}

func (s step) Add(ctx context.Context, req *netconf.Request) error {
	results, err := s.records.Add(ctx, s.set, req)
	if err != nil {
		return err
	}
	return req.AppendResult(results[0].JSON)
}

func (s step) Check(ctx context.Context, req *netconf.Request) error {
	return s.records.Check(ctx, s.set.Plugins, req)
}

func (s step) Del(ctx context.Context, req *netconf.Request) error {
	return s.records.Del(ctx, s.set.Plugins, req)
}

func (s step) GC(ctx context.Context, req *netconf.Request) error {
	return s.records.GC(ctx, s.set.Plugins, req, s.set.Attachments[0].Network)
}

func (s step) Status(ctx context.Context, req *netconf.Request) error {
	return s.set.Attachments[0].Network.Status(ctx, s.set.Plugins, req)
}
