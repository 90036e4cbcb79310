package state_test

import (
	"context"
	"fmt"
	"os"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/state"
)

// A daemon that moves devices into containers keeps where each came from, and finds those of containers that are no
// more.
func Example() {
	dir, err := os.MkdirTemp("", "state")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	store := state.Store{Dir: dir, Warn: func(msg string, args ...any) { fmt.Println(msg, args) }}

	for i, container := range []string{"c1", "c2"} {
		record := store.Open(ctx, state.Attachment{Plugin: "eni", Network: "net", ContainerID: container, IfName: "eth0"}, netconf.Add)
		if err := record.Save("device", fmt.Append(nil, "ens", i+5)); err != nil {
			fmt.Println(err)
		}
	}
	stale, err := store.Stale(ctx, "eni", "net", []types.GCAttachment{{ContainerID: "c1", IfName: "eth0"}})
	if err != nil {
		fmt.Println(err)
	}
	for _, record := range stale {
		device, err := record.Load("device")
		fmt.Printf("%s of %s goes back: %v\n", device, record.Attachment().ContainerID, err)
		if err := record.Remove(); err != nil {
			fmt.Println(err)
		}
	}
	// Output: ens6 of c2 goes back: <nil>
}
