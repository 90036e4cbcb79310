package compare

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/invoke"
	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/netconf"
)

// quick is a plugin that takes as little time as a program can that needs no compiler: what is measured is the way to it.
func quick(b *testing.B, names ...string) (dir string) {
	b.Helper()
	dir = b.TempDir()
	for _, name := range names {
		write(b, filepath.Join(dir, name), "#!/bin/sh\n[ $CNI_COMMAND != ADD ] || echo '{\"cniVersion\":\"1.1.0\",\"interfaces\":[{\"name\":\"eth0\",\"sandbox\":\"/n\"}]}'\n")
	}
	return dir
}

func request(command netconf.Command, dir string) *netconf.Request {
	return &netconf.Request{Command: command, ContainerID: container, Netns: netns, IfName: ifname, Path: []string{dir}, Environ: os.Environ()}
}

// One program, one call: the two ways in turn, so that both see the same machine.
func BenchmarkExec(b *testing.B) {
	const config = `{"cniVersion":"1.1.0","name":"net","type":"a"}`
	dir := quick(b, "a")
	b.Run("delegate", func(b *testing.B) {
		b.ReportAllocs()
		req := request(netconf.Add, dir)
		network, err := netconf.ParseNetwork([]byte(config))
		if err != nil {
			b.Fatal(err)
		}
		req.Network, req.Config = network, network.Bytes()
		for b.Loop() {
			if _, err := (delegate.Exec{}).Call(b.Context(), req); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("invoke", func(b *testing.B) {
		b.ReportAllocs()
		args := &invoke.Args{Command: "ADD", ContainerID: container, NetNS: netns, IfName: ifname, Path: dir}
		for b.Loop() {
			path, err := invoke.FindInPath("a", []string{dir})
			if err != nil {
				b.Fatal(err)
			}
			if _, err := invoke.ExecPluginWithResult(b.Context(), path, []byte(config), args, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// A list of five: ADD, then DEL, by programs through both libraries and by Go values.
func BenchmarkFive(b *testing.B) {
	names := []string{"a", "b", "c", "d", "e"}
	dir := quick(b, names...)
	plugins := make([]string, len(names))
	goValues := delegate.Registry{}
	for i, name := range names {
		plugins[i] = fmt.Sprintf(`{"type":%q,"capabilities":{"mac":true}}`, name)
		goValues[name] = func(_ context.Context, req *netconf.Request) error {
			if req.Command == netconf.Add {
				req.AddInterface(&types100.Interface{Name: "eth0", Sandbox: "/n"})
			}
			return nil
		}
	}
	text := []byte(`{"cniVersion":"1.1.0","name":"lan","plugins":[` + strings.Join(plugins, ",") + `]}`)
	ours, err := delegate.ParseNetwork(text)
	if err != nil {
		b.Fatal(err)
	}
	for name, registry := range map[string]delegate.Registry{"programs": nil, "Go values": goValues} {
		b.Run("delegate, "+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				req := request(netconf.Add, dir)
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
		cni := libcni.NewCNIConfigWithCacheDir([]string{dir}, b.TempDir(), nil) // its cache's writes are in the time
		rt := &libcni.RuntimeConf{ContainerID: container, NetNS: netns, IfName: ifname}
		for b.Loop() {
			if _, err := cni.AddNetworkList(b.Context(), list, rt); err != nil {
				b.Fatal(err)
			}
			if err := cni.DelNetworkList(b.Context(), list, rt); err != nil {
				b.Fatal(err)
			}
		}
	})
}
