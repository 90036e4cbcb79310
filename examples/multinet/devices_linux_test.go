package main

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/examples/multinet/device"
	"github.com/cnikit/cnikit/examples/multinet/kube"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

// withDevices makes the world's kubelet one that has given the pod devices, which it knows of by its file.
func withDevices(t *testing.T, resource string, ids ...string) *world {
	t.Helper()
	w := newWorld(t)
	text, err := json.Marshal(map[string]any{"Data": map[string]any{"PodDeviceEntries": []any{
		map[string]any{"PodUID": "uid-1", "ContainerName": "c", "ResourceName": resource, "DeviceIDs": map[string]any{"-1": ids}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	w.write("checkpoint", string(text))
	p := plugin()
	p.RunDir = w.path("run")
	p.Steps = func(_ *netconf.Request, c *config) skel.Steps {
		return skel.Steps{multinet{c, connect, func(ctx context.Context, api device.API, pod *kube.Pod, wants []device.Want) ([]string, error) {
			return device.Sources{Socket: w.path("none"), Checkpoint: w.path("checkpoint"), API: api}.Assign(ctx, pod, wants)
		}}}
	}
	w.run = p
	config := `{"plugins":[{"type":"spy","capabilities":{"deviceID":true,"CNIDeviceInfoFile":true}},{"type":"spy"}]}`
	w.apply("NetworkAttachmentDefinition", "k8s.cni.cncf.io/v1", "ns1", "nic", "", map[string]string{device.Annotation: resource}, map[string]any{"spec": map[string]any{"config": config}})
	return w
}

// TestDevices: two networks of a resource get a device each, in the configuration, by the capability, with its file; the
// status says what the file does, and DEL, which asks nobody, has the same and removes the files.
func TestDevices(t *testing.T) {
	w := withDevices(t, "vendor.example/devices-test", "0000:01:00.2", "0000:01:00.1")
	files := device.Files{}
	dp := filepath.Join(device.InfoDir, "dp")
	if err := os.MkdirAll(dp, 0o755); err != nil {
		t.Fatal(err)
	}
	const info = `{"type":"pci","version":"1.1.0","pci":{"pci-address":"0000:01:00.2"}}`
	if err := os.WriteFile(filepath.Join(dp, "vendor.example-devices-test-0000:01:00.2-device.json"), []byte(info), 0o600); err != nil {
		t.Fatal(err)
	}
	w.write("answer.net1", `{"cniVersion":"1.0.0","interfaces":[{"name":"net1","sandbox":"`+w.ns.Path+`"}]}`)
	w.pod("nic,nic")
	w.add()
	var list []map[string]json.RawMessage
	if err := json.Unmarshal([]byte(w.api.Annotations("ns1", "p")["k8s.v1.cni.cncf.io/network-status"]), &list); err != nil {
		t.Fatal(err)
	}
	if list[1]["device-info"] != nil || !strings.Contains(string(list[2]["device-info"]), `"pci-address": "0000:01:00.2"`) {
		t.Errorf("status: %s", list)
	}
	if mode, err := os.Stat(filepath.Dir(files.Path("c1", "net2"))); err != nil || mode.Mode().Perm() != 0o755 {
		t.Errorf("the folder: %v, %v", mode, err)
	}
	w.remove("checkpoint") // DEL asks nobody
	w.del()
	for ifname, id := range map[string]string{"net1": `"0000:01:00.1"`, "net2": `"0000:01:00.2"`} {
		path := files.Path("c1", ifname)
		if got := w.asked("DEL."+ifname, "deviceID"); got != id {
			t.Errorf("DEL %s: deviceID %s; expected %s", ifname, got, id)
		}
		in := w.in("DEL." + ifname)
		if string(in["deviceID"]) != id || string(in["pciBusID"]) != id || w.asked("DEL."+ifname, "CNIDeviceInfoFile") != `"`+path+`"` {
			t.Errorf("DEL %s: %s", ifname, in)
		}
		if _, err := os.Stat(path); !os.IsNotExist(err) {
			t.Errorf("%s is left: %v", path, err)
		}
	}
	w.clean()
}

// TestDevicesGC: what describes a dead pod's device is removed by GC, what describes a living one's is not.
func TestDevicesGC(t *testing.T) {
	w := withDevices(t, "vendor.example/devices-gc", "0000:02:00.1")
	path := device.Files{}.Path("c1gc", "net1")
	dp := filepath.Join(device.InfoDir, "dp")
	if err := os.MkdirAll(dp, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dp, "vendor.example-devices-gc-0000:02:00.1-device.json"), []byte(`{"type":"pci","version":"1.1.0","pci":{"pci-address":"0000:02:00.1"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	w.pod("nic")
	add := w.call(netconf.Add)
	add.ContainerID = "c1gc"
	add.Run(t.Context(), t, w.run).OK(t)
	w.gc("c1gc").OK(t)
	if _, err := os.Stat(path); err != nil {
		t.Errorf("it lives: %v", err)
	}
	w.gc().OK(t)
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", path, err)
	}
	w.clean()
}

// TestDevicesRefused: before a plugin runs.
func TestDevicesRefused(t *testing.T) {
	t.Parallel()
	for annotation, c := range map[string]struct {
		code  uint
		words string
	}{
		"nic,nic": {7, `no device of resource "vendor.example/one" is left`},
		`[{"name":"nic","deviceID":"0000:99:00.0"}]`: {7, `device "0000:99:00.0" is not one that the pod has`},
	} {
		t.Run(annotation, func(t *testing.T) {
			w := withDevices(t, "vendor.example/one", "0000:01:00.1")
			w.pod(annotation)
			w.do(netconf.Add).Fails(t, c.code, strings.Split(c.words, "|")...)
			if got := w.log(); got != "" {
				t.Errorf("called: %s", got)
			}
			w.remove("checkpoint")
			w.pod("nic")
			w.do(netconf.Add).Fails(t, netconf.CodeTryAgainLater, "kubelet's pod-resources socket", "kubelet's checkpoint")
			w.del()
			w.clean()
		})
	}
}
