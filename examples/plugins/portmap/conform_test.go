//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cnikit/cnikit/internal/testbin"
	"github.com/cnikit/cnikit/skel"
	"github.com/cnikit/cnikit/skel/skeltest"
)

func TestConforms(t *testing.T) {
	skeltest.NeedRoot(t)
	if testbin.Guest() {
		t.Skip("thousands of processes: many minutes in an emulated guest")
	}
	path := []string{filepath.Dir(testbin.Plugin(t, "ptp")), testbin.Reference(t, testbin.HostLocal)}
	testbin.Built(t)
	skeltest.Conform(t, skeltest.Target{Plugin: own{}, Kind: skel.Chained, Config: conformConf, Path: path})
}

// own is the plugin with an address of the host for each container, as a runtime sends each its own ports: the suite
// makes many attachments with one configuration, and two that want the same port are refused.
type own struct{}

func (own) Run(ctx context.Context, streams skel.IO) int {
	config, err := io.ReadAll(streams.Stdin)
	if err != nil {
		panic(err)
	}
	sum := fnv.New32a()
	for _, kv := range streams.Env {
		if id, ok := bytes.CutPrefix([]byte(kv), []byte("CNI_CONTAINERID=")); ok {
			_, _ = sum.Write(id) // a hash takes all
		}
	}
	h := sum.Sum32()
	address := fmt.Sprintf("127.%d.%d.%d", 1+h%250, h>>8&0xff, h>>16&0xff)
	streams.Stdin = bytes.NewReader(bytes.ReplaceAll(slices.Clone(config), []byte("127.9.9.9"), []byte(address)))
	return plugin().Run(ctx, streams)
}

const conformConf = `{"cniVersion":"1.1.0","name":"net","plugins":[
	{"type":"ptp","ipam":{"type":"host-local","ranges":[[{"subnet":"10.1.0.0/24"}],[{"subnet":"fd00:1::/64"}]],"routes":[{"dst":"0.0.0.0/0"}]}},
	{"type":"portmap","runtimeConfig":{"portMappings":[
		{"hostPort":8080,"containerPort":80,"protocol":"tcp","hostIP":"127.9.9.9"},{"hostPort":5353,"containerPort":53,"protocol":"udp","hostIP":"127.9.9.9"}]}}]}`
