//go:build unix

package compare

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/invoke"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/internal/compare/quick"
	"github.com/cnikit/cnikit/internal/testbin"
	"github.com/cnikit/cnikit/netconf"
)

// bench is the plugin quick, as a program of dir and as a Go value of values.
type bench struct {
	dir    string
	values delegate.Registry
}

func newBench(b *testing.B) bench {
	b.Helper()
	runDir := b.TempDir()
	b.Setenv(quick.RunDir, runDir)
	b.Setenv("CNI_NETNS_OVERRIDE", "1") // it works in this namespace, where it does nothing
	dir := testbin.Tools(b, "internal/compare", nil, "./cmd/quick")
	return bench{dir, delegate.Registry{"quick": quick.Plugin(runDir).Do}}
}

// ways are the two ways to the plugin.
func (q bench) ways() map[string]delegate.Registry {
	return map[string]delegate.Registry{"programs": nil, "Go values": q.values}
}

const own = "/proc/self/ns/net"

func (q bench) request(command netconf.Command) *netconf.Request {
	return &netconf.Request{Command: command, ContainerID: container, Netns: own, IfName: ifname, Path: []string{q.dir}, Environ: os.Environ(), Network: netconf.Network{Name: "outer"}}
}

func (q bench) libcni(b *testing.B) *libcni.CNIConfig {
	return libcni.NewCNIConfigWithCacheDir([]string{q.dir}, b.TempDir(), nil) // its cache's writes are in the time
}

// One call: as a program through both libraries, and as a Go value.
func BenchmarkOne(b *testing.B) {
	const config = `{"cniVersion":"1.1.0","name":"net","type":"quick"}`
	q := newBench(b)
	network, err := netconf.ParseNetwork([]byte(config))
	if err != nil {
		b.Fatal(err)
	}
	for name, registry := range q.ways() {
		b.Run("delegate, "+name, func(b *testing.B) {
			b.ReportAllocs()
			req := q.request(netconf.Add)
			req.Network, req.Config = network, network.Bytes()
			for b.Loop() {
				if _, err := registry.Plugin("quick").Call(b.Context(), req); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("invoke, programs", func(b *testing.B) {
		b.ReportAllocs()
		args := &invoke.Args{Command: "ADD", ContainerID: container, NetNS: own, IfName: ifname, Path: q.dir}
		for b.Loop() {
			path, err := invoke.FindInPath("quick", []string{q.dir})
			if err != nil {
				b.Fatal(err)
			}
			if _, err := invoke.ExecPluginWithResult(b.Context(), path, []byte(config), args, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// A list of five: ADD, then DEL.
func BenchmarkFive(b *testing.B) {
	q := newBench(b)
	plugin := `{"type":"quick","capabilities":{"mac":true}}`
	text := []byte(`{"cniVersion":"1.1.0","name":"lan","plugins":[` + plugin + strings.Repeat(","+plugin, 4) + `]}`)
	ours, err := delegate.ParseNetwork(text)
	if err != nil {
		b.Fatal(err)
	}
	for name, registry := range q.ways() {
		b.Run("delegate, "+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				req := q.request(netconf.Add)
				result, err := ours.Add(b.Context(), registry, req)
				if err == nil {
					err = req.SetPrev(result.JSON)
				}
				if err == nil {
					err = ours.Del(b.Context(), registry, req)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("libcni, programs", func(b *testing.B) {
		b.ReportAllocs()
		list, err := libcni.NetworkConfFromBytes(text)
		if err != nil {
			b.Fatal(err)
		}
		cni := q.libcni(b)
		for b.Loop() {
			addDel(b, cni, list, ifname)
		}
	})
}

func addDel(b *testing.B, cni *libcni.CNIConfig, list *libcni.NetworkConfigList, ifname string) {
	b.Helper()
	rt := &libcni.RuntimeConf{ContainerID: container, NetNS: own, IfName: ifname}
	if _, err := cni.AddNetworkList(b.Context(), list, rt); err != nil {
		b.Fatal(err)
	}
	if err := cni.DelNetworkList(b.Context(), list, rt); err != nil {
		b.Fatal(err)
	}
}

// Four networks of one container: ADD, then DEL, one after the other and at once, with and without a record; libcni, which
// keeps a cache of each, has one after the other.
func BenchmarkFour(b *testing.B) {
	q := newBench(b)
	var attachments []delegate.Attachment
	var lists []*libcni.NetworkConfigList
	for i := range 4 {
		text := fmt.Appendf(nil, `{"cniVersion":"1.1.0","name":"n%d","plugins":[{"type":"quick"}]}`, i)
		network, err := delegate.ParseNetwork(text)
		if err != nil {
			b.Fatal(err)
		}
		list, err := libcni.NetworkConfFromBytes(text)
		if err != nil {
			b.Fatal(err)
		}
		attachments, lists = append(attachments, delegate.Attachment{Network: network, IfName: fmt.Sprint("net", i)}), append(lists, list)
	}
	for name, registry := range q.ways() {
		for how, parallel := range map[string]int{"in order": 1, "at once": 4} {
			set := delegate.Set{Attachments: attachments, Plugins: registry, Parallel: parallel}
			b.Run("delegate, "+name+", "+how, func(b *testing.B) { q.four(b, set.Add, withResults(set)) })
			b.Run("delegate, "+name+", "+how+", record", func(b *testing.B) {
				r := delegate.Records{Dir: filepath.Join(b.TempDir(), "records")}
				q.four(b, func(ctx context.Context, req *netconf.Request) ([]delegate.Result, error) {
					return r.Add(ctx, set, req)
				},
					func(ctx context.Context, req *netconf.Request, _ []delegate.Result) error {
						return r.Del(ctx, registry, req)
					})
			})
		}
	}
	b.Run("libcni, programs, in order", func(b *testing.B) {
		b.ReportAllocs()
		cni := q.libcni(b)
		for b.Loop() {
			for i, list := range lists {
				addDel(b, cni, list, fmt.Sprint("net", i))
			}
		}
	})
}

// withResults is the DEL of a set with what its ADD answered, as libcni has it from its cache.
func withResults(set delegate.Set) func(context.Context, *netconf.Request, []delegate.Result) error {
	return func(ctx context.Context, req *netconf.Request, results []delegate.Result) error {
		own := set
		own.Attachments = append([]delegate.Attachment{}, set.Attachments...)
		for i, r := range results {
			own.Attachments[i].Result = json.RawMessage(r.JSON)
		}
		return own.Del(ctx, req)
	}
}

func (q bench) four(b *testing.B, add func(context.Context, *netconf.Request) ([]delegate.Result, error), del func(context.Context, *netconf.Request, []delegate.Result) error) {
	b.ReportAllocs()
	req := q.request(netconf.Add)
	for b.Loop() {
		results, err := add(b.Context(), req)
		if err != nil {
			b.Fatal(err)
		}
		if err := del(b.Context(), req, results); err != nil {
			b.Fatal(err)
		}
	}
}
