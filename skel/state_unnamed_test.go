package skel_test

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
	"github.com/cnikit/cnikit/skel/state"
)

// A DEL whose configuration has no name any more did not find what the ADD had saved, said nothing of it, and left the
// file until a GC.
func TestStateIsFoundByADelThatNamesNoNetwork(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("n", 200)
	for name, c := range map[string]struct{ network, config, want string }{
		"no name":             {"net", `{"cniVersion":"1.1.0","type":"test"}`, "net"},
		"no JSON":             {"net", `{"cniVersion":`, "net"},
		"nothing":             {"net", "", "net"},
		"a bad name":          {"net", `{"cniVersion":"1.1.0","name":"../x","type":"test"}`, "net"},
		"a name of no string": {"net", `{"cniVersion":"1.1.0","name":7,"type":"test"}`, "net"},
		"a long name":         {long, `{"cniVersion":"1.1.0","type":"test"}`, long},
		"another network":     {"net", `{"cniVersion":"1.1.0","name":"other","type":"test"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := &journal{}
			p := plugin(t, &step{name: "a", j: j,
				add: func(ctx context.Context, req *netconf.Request) error {
					return errors.Join(req.State.Save("device", []byte("ens5")), iface(ctx, req))
				},
				del: func(_ context.Context, req *netconf.Request) error {
					data, err := req.State.Load("device")
					j.note("%s of %s", data, req.Network.Name)
					return err
				}})
			add := call(netconf.Add)
			add.Config = strings.Replace(add.Config, `"net"`, `"`+c.network+`"`, 1)
			add.Run(t.Context(), t, p).OK(t)
			other := call(netconf.Add) // of another interface: not ours
			other.IfName = "eth1"
			other.Run(t.Context(), t, p).OK(t)
			j.want(t, "ADD a", "ADD a")
			del := call(netconf.Del)
			del.Config = c.config
			a := del.Run(t.Context(), t, p).OK(t)
			left, err := os.ReadDir(p.RunDir)
			if c.want == "" {
				j.want(t, "DEL a", " of other")
				if err != nil || len(left) != 2 {
					t.Errorf("the record of another network is taken: %v, %v", left, err)
				}
				return
			}
			j.want(t, "DEL a", "ens5 of "+c.want)
			if err != nil || len(left) != 1 || !strings.Contains(a.Stderr, "names no network: goes on with the one") {
				t.Errorf("left %v, %v; stderr %s", left, err, a.Stderr)
			}
		})
	}
}

// Of several nobody knows which is meant: nothing is taken, and that is told.
func TestStateOfSeveralNetworksStaysWhereADelNamesNone(t *testing.T) {
	t.Parallel()
	j := &journal{}
	p := plugin(t, &step{name: "a", j: j})
	for _, network := range []string{"net", "old"} {
		of := state.Attachment{Plugin: "test", Network: network, ContainerID: "c1", IfName: "eth0"}
		if err := (state.Store{Dir: p.RunDir}).Open(t.Context(), of, netconf.Add).Save("k", nil); err != nil {
			t.Fatal(err)
		}
	}
	del := skeltest.Call{Command: netconf.Del, ContainerID: "c1", IfName: "eth0", Config: `{"cniVersion":"1.1.0","type":"test"}`}
	a := del.Run(t.Context(), t, p).OK(t)
	j.want(t, "DEL a")
	left, err := os.ReadDir(p.RunDir)
	if err != nil || len(left) != 2 || !strings.Contains(a.Stderr, `networks="net old"`) {
		t.Errorf("left %v, %v; stderr %s", left, err, a.Stderr)
	}
}
