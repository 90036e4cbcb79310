package main

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
)

// record is the file in which the reference plugin has written down how the interface was: dir/CONTAINER_IFNAME.json. As a step
// it does something on DEL alone, for an attachment that the reference plugin has made before an upgrade. It stands behind
// link.Tune, so that on DEL it comes before that.
type record struct{ dir string }

// kept is the content of the file: what was changed, as it was before.
type kept struct {
	MAC      netconf.MAC `json:"mac"`
	MTU      int         `json:"mtu"`
	Promisc  *bool       `json:"promisc"`
	AllMulti *bool       `json:"allmulti"`
	TxQLen   *int        `json:"txQLen"`
}

func (record) Name() string { return "reference record" }

func (record) Add(context.Context, *netconf.Request) error { return nil }

func (record) Check(context.Context, *netconf.Request) error { return nil }

// Del gives back what the file says, and removes it. One that cannot be read is a warning: it will not get better.
func (r record) Del(ctx context.Context, req *netconf.Request) error {
	if ours, err := (link.Tune{}).Kept(req); err != nil || ours {
		return err
	}
	file := filepath.Join(r.dir, req.ContainerID+"_"+req.IfName+".json")
	data, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		req.Warn("what the reference plugin has written down is not given back", "error", err.Error())
		return nil
	}
	var was kept
	if err := json.Unmarshal(data, &was); err != nil {
		req.Warn("what the reference plugin has written down is not given back", "file", file, "error", err.Error())
	} else if err := (link.Tune{MAC: was.MAC, MTU: was.MTU, Promisc: was.Promisc, AllMulti: was.AllMulti, TxQLen: was.TxQLen}).GiveBack(ctx, req); err != nil {
		return err
	}
	if err := netconf.Before(ctx, "remove "+file); err != nil {
		return err
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return netconf.Errorf(netconf.CodeIOFailure, "%w", err)
	}
	return nil
}
