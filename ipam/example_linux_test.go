package ipam_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"time"

	upstream "github.com/containernetworking/cni/pkg/skel"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/cnikit/cnikit/ipam"
	"github.com/cnikit/cnikit/netconf"
)

// Package ipam in a plugin under upstream's skel: the plugin's own work is between the addresses and
// the result, and so is the rollback.
func Example_upstreamSkel() {
	call := func(args *upstream.CmdArgs) (*netconf.Request, ipam.Step, error) {
		req, err := netconf.Parse(os.Getenv, bytes.NewReader(args.StdinData))
		if err != nil {
			return nil, nil, err
		}
		req.Environ = os.Environ()
		step := ipam.FromConfig(req)
		if step == nil {
			return nil, nil, netconf.Join(req.Rejected(), errors.New("this plugin needs an ipam section"))
		}
		return req, step, nil
	}
	add := func(args *upstream.CmdArgs) error {
		req, step, err := call(args)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		// This skel rolls nothing back. The address is to be released also when ctx has ended.
		released := func(err error) error { return netconf.Join(err, step.Del(context.Background(), req)) }
		if err := step.Add(ctx, req); netconf.IsUnchanged(err) {
			return err
		} else if err != nil {
			return released(err)
		}
		// ... the interface, with the addresses of req.Result; if that fails, return released(err)
		if err := req.EncodeResult(os.Stdout); err != nil {
			return released(err)
		}
		return nil
	}
	del := func(args *upstream.CmdArgs) error {
		req, step, err := call(args)
		if err != nil {
			return err
		}
		// ... the interface
		return step.Del(context.Background(), req)
	}
	_ = func() { // func main
		upstream.PluginMainFuncs(upstream.CNIFuncs{Add: add, Del: del}, version.PluginSupports("0.3.1", "0.4.0", "1.0.0"), "my plugin")
	}
}
