package delegate_test

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/netconf"
)

// Four networks of one container, ADD and DEL, one after the other and at once, by programs, by Go values, and by Go
// values that wait for 2 ms at ADD, as for a daemon or for duplicate address detection; each with and without a record.
func BenchmarkFour(b *testing.B) {
	dir := b.TempDir()
	script := "#!/bin/sh\n[ $CNI_COMMAND != ADD ] || echo '{\"cniVersion\":\"1.1.0\",\"interfaces\":[{\"name\":\"eth0\",\"sandbox\":\"/n\"}]}'\n"
	write(b, filepath.Join(dir, "quick"), script, 0o755)
	wait := func(ctx context.Context, req *netconf.Request) error {
		if req.Command == netconf.Add {
			time.Sleep(2 * time.Millisecond)
		}
		return grow(ctx, "x", req)
	}
	for _, kind := range []struct {
		name    string
		plugins delegate.Registry
	}{
		{"programs", nil},
		{"Go values", delegate.Registry{"quick": func(ctx context.Context, req *netconf.Request) error { return grow(ctx, "x", req) }}},
		{"Go values that wait", delegate.Registry{"quick": wait}},
	} {
		for _, parallel := range []int{1, 4} {
			set := delegate.Set{Plugins: kind.plugins, Parallel: parallel}
			for i := range 4 {
				network, err := delegate.ParseNetwork(fmt.Appendf(nil, `{"cniVersion":"1.1.0","name":"n%d","type":"quick"}`, i))
				if err != nil {
					b.Fatal(err)
				}
				set.Attachments = append(set.Attachments, delegate.Attachment{Network: network, IfName: fmt.Sprint("net", i)})
			}
			req := &netconf.Request{ContainerID: "c1", IfName: "eth0", Path: []string{dir}, Network: netconf.Network{Name: "outer"}}
			how := map[int]string{1: "in order", 4: "at once"}[parallel]
			b.Run(kind.name+", "+how, func(b *testing.B) {
				for b.Loop() {
					if _, err := set.Add(b.Context(), req); err != nil {
						b.Fatal(err)
					}
					if err := set.Del(b.Context(), req); err != nil {
						b.Fatal(err)
					}
				}
			})
			b.Run(kind.name+", "+how+", record", func(b *testing.B) {
				r := delegate.Records{Dir: filepath.Join(b.TempDir(), "records")}
				for b.Loop() {
					if _, err := r.Add(b.Context(), set, req); err != nil {
						b.Fatal(err)
					}
					if err := r.Del(b.Context(), kind.plugins, req); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
