package device_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
	"k8s.io/kubelet/pkg/apis/podresources/v1alpha1"

	"github.com/cnikit/cnikit/examples/multinet/device"
	"github.com/cnikit/cnikit/examples/multinet/kube"
	"github.com/cnikit/cnikit/netconf"
)

var pod = &kube.Pod{Namespace: "ns1", Name: "p", UID: "uid-1"}

// kubelet is the pod-resources service, as kubelet's (pkg/kubelet/apis/podresources/server_v1.go): errors of its own have
// no code, which is Unknown.
type kubelet struct {
	podresources.UnimplementedPodResourcesListerServer
	pods       []*podresources.PodResources
	noGet      bool          // the feature gate KubeletPodResourcesGet is off
	silent     chan struct{} // not nil: answers when it is closed
	gets, list atomic.Int32
}

func (k *kubelet) Get(ctx context.Context, r *podresources.GetPodResourcesRequest) (*podresources.GetPodResourcesResponse, error) {
	k.gets.Add(1)
	if k.silent != nil {
		select {
		case <-k.silent:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if k.noGet {
		return nil, errors.New("PodResources API Get method disabled")
	}
	for _, p := range k.pods {
		if p.Name == r.PodName && p.Namespace == r.PodNamespace {
			return &podresources.GetPodResourcesResponse{PodResources: p}, nil
		}
	}
	return nil, fmt.Errorf("pod %s in namespace %s not found", r.PodName, r.PodNamespace)
}

func (k *kubelet) List(context.Context, *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse, error) {
	k.list.Add(1)
	return &podresources.ListPodResourcesResponse{PodResources: k.pods}, nil
}

// serve runs a service on a unix socket and returns its path.
func serve(t *testing.T, register func(*grpc.Server)) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "kubelet") // a socket's path has at most 107 bytes
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "kubelet.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	register(server)
	done := make(chan error)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return path
}

func (k *kubelet) serve(t *testing.T) string {
	return serve(t, func(s *grpc.Server) { podresources.RegisterPodResourcesListerServer(s, k) })
}

// has makes a pod of containers of the form "a/nic=2 a/nic=1 b/nic=x".
func has(namespace, name string, containers ...string) *podresources.PodResources {
	p := &podresources.PodResources{Namespace: namespace, Name: name}
	for i, text := range containers {
		c := &podresources.ContainerResources{Name: fmt.Sprint("c", i)}
		for _, pair := range strings.Fields(text) {
			resource, id, _ := strings.Cut(pair, "=")
			c.Devices = append(c.Devices, &podresources.ContainerDevices{ResourceName: resource, DeviceIds: []string{id}})
		}
		p.Containers = append(p.Containers, c)
	}
	return p
}

// checkpoint writes kubelet's file.
func checkpoint(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubelet_internal_checkpoint")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const (
	// as Kubernetes 1.20 and later writes it
	byNode = `{"Data":{"PodDeviceEntries":[
		{"PodUID":"uid-1","ContainerName":"b","ResourceName":"a/nic","DeviceIDs":{"0":["1"]},"AllocResp":"AA=="},
		{"PodUID":"uid-2","ContainerName":"a","ResourceName":"a/nic","DeviceIDs":{"-1":["7"]},"AllocResp":"AA=="},
		{"PodUID":"uid-1","ContainerName":"a","ResourceName":"a/nic","DeviceIDs":{"1":["4","3"],"-1":["5"]},"AllocResp":"AA=="}],
		"RegisteredDevices":{"a/nic":["1","3","4","5","7"]}},"Checksum":2931013271}`
	// before
	plain = `{"Data":{"PodDeviceEntries":[{"PodUID":"uid-1","ContainerName":"a","ResourceName":"a/nic","DeviceIDs":["2","1"],"AllocResp":"AA=="}],
		"RegisteredDevices":{"a/nic":["1","2"]}},"Checksum":1}`
)

var three = []device.Want{{}, {Resource: "a/nic"}, {Resource: "a/nic"}, {Resource: "a/nic"}}

func TestKubeletIsAsked(t *testing.T) {
	t.Parallel()
	many := &kubelet{noGet: true, pods: []*podresources.PodResources{has("ns1", "p", "a/nic=3 a/nic=2 a/nic=1")}}
	for i := range 60_000 { // about 6 MB: gRPC by itself takes 4 MiB
		many.pods = append(many.pods, has("ns9", fmt.Sprintf("a-pod-with-a-rather-long-name-of-a-stateful-set-%06d", i), "vendor.example/virtual-function=0000:0a:00.1"))
	}
	for name, c := range map[string]struct {
		k    *kubelet
		list int32 // how often all pods are asked for
		ids  string
	}{
		"sorted in each container":     {&kubelet{pods: []*podresources.PodResources{has("ns2", "p", "a/nic=0"), has("ns1", "p", "a/nic=9 b/nic=1 a/nic=8", "a/nic=1")}}, 0, " 8 9 1"},
		"one device in two containers": {&kubelet{pods: []*podresources.PodResources{has("ns1", "p", "a/nic=2", "a/nic=2 a/nic=1", "a/nic=3")}}, 0, " 2 1 3"},
		"Get is off":                   {&kubelet{noGet: true, pods: []*podresources.PodResources{has("ns1", "p", "a/nic=1 a/nic=2 a/nic=3")}}, 1, " 1 2 3"},
		"a List of more than four MiB": {many, 1, " 1 2 3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := device.Sources{Socket: c.k.serve(t), Checkpoint: "/nonexistent"}
			ids, err := s.Assign(t.Context(), pod, three)
			if got := strings.Join(ids, " "); err != nil || got != c.ids {
				t.Fatalf("got %q, %v; expected %q", got, err, c.ids)
			}
			if c.k.gets.Load() != 1 || c.k.list.Load() != c.list {
				t.Fatalf("%d times Get, %d times List; expected 1 and %d", c.k.gets.Load(), c.k.list.Load(), c.list)
			}
		})
	}
}

// TestSharedDeviceIsOne: init containers hand their devices on.
func TestSharedDeviceIsOne(t *testing.T) {
	t.Parallel()
	k := &kubelet{pods: []*podresources.PodResources{has("ns1", "p", "a/nic=2", "a/nic=2")}}
	_, err := device.Sources{Socket: k.serve(t), Checkpoint: "/nonexistent"}.Assign(t.Context(), pod, three)
	if err == nil || !strings.Contains(err.Error(), "the pod has 1,") {
		t.Fatal(err)
	}
}

func TestNobodyIsAskedForNothing(t *testing.T) {
	t.Parallel()
	ids, err := device.Sources{Socket: "/nonexistent", Checkpoint: "/nonexistent"}.Assign(t.Context(), pod, []device.Want{{}, {ID: "x"}})
	if err != nil || len(ids) != 2 || ids[1] != "x" {
		t.Fatalf("got %q, %v", ids, err)
	}
}

// TestCheckpoint: kubelet's file, wherever its service gives no answer that can be used.
func TestCheckpoint(t *testing.T) {
	t.Parallel()
	broken := &kubelet{noGet: true, pods: []*podresources.PodResources{has("ns1", "p", "a/nic=x"), has("ns1", "p", "a/nic=y")}}
	stopped := &kubelet{silent: make(chan struct{})}
	t.Cleanup(func() { close(stopped.silent) })
	old := serve(t, func(s *grpc.Server) {
		v1alpha1.RegisterPodResourcesListerServer(s, v1alpha1.UnimplementedPodResourcesListerServer{})
	})
	plainFile := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(plainFile, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, socket := range map[string]string{
		"no socket": "/nonexistent/kubelet.sock", "no socket but a file": plainFile, "v1alpha1 only": old,
		"two pods of that name": broken.serve(t), "it does not answer": stopped.serve(t),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second) // of which kubelet gets the half
			defer cancel()
			ids, err := device.Sources{Socket: socket, Checkpoint: checkpoint(t, byNode)}.Assign(ctx, pod, three)
			if got := strings.Join(ids, " "); err != nil || got != " 3 4 5" {
				t.Fatalf("got %q, %v", got, err)
			}
			_, err = device.Sources{Socket: socket, Checkpoint: "/nonexistent"}.Assign(ctx, pod, three)
			if netconf.Code(err) != netconf.CodeTryAgainLater || !strings.Contains(err.Error(), socket) || !strings.Contains(err.Error(), "/nonexistent") {
				t.Fatalf("without the file: %v (code %d); expected code 11 and both places", err, netconf.Code(err))
			}
		})
	}
}

func TestCheckpointFormats(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text, uid, ids, err string
	}{
		"since 1.20":        {byNode, "uid-1", " 3 4 5", ""},
		"before 1.20":       {plain, "uid-1", "", `no device of resource "a/nic" is left: the pod has 2`},
		"another pod's":     {byNode, "uid-3", "", "the pod has 0"},
		"no UID":            {byNode, "", "", "the pod's UID, which is not known"},
		"cut off":           {byNode[:200], "uid-1", "", "unexpected end"},
		"empty":             {"", "uid-1", "", "unexpected end"},
		"another shape":     {`{"Data":{"PodDeviceEntries":[{"PodUID":"uid-1","DeviceIDs":7}]}}`, "uid-1", "", "cannot unmarshal"},
		"null, and no data": {`{"Data":null}`, "uid-1", "", "the pod has 0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := *pod
			p.UID = c.uid
			ids, err := device.Sources{Socket: "/nonexistent", Checkpoint: checkpoint(t, c.text)}.Assign(t.Context(), &p, three)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("got %q, %v; expected an error with %q", ids, err, c.err)
				}
				return
			}
			if got := strings.Join(ids, " "); err != nil || got != c.ids {
				t.Fatalf("got %q, %v; expected %q", got, err, c.ids)
			}
		})
	}
}

// TestCheckpointOfAStaticPod: kubelet knows it by another UID than the API.
func TestCheckpointOfAStaticPod(t *testing.T) {
	t.Parallel()
	static := &kube.Pod{Namespace: "ns1", Name: "p-node1", UID: "mirror", Static: true, Annotations: map[string]string{"kubernetes.io/config.hash": "uid-1"}}
	ids, err := device.Sources{Socket: "/nonexistent", Checkpoint: checkpoint(t, byNode)}.Assign(t.Context(), static, three)
	if got := strings.Join(ids, " "); err != nil || got != " 3 4 5" {
		t.Fatalf("got %q, %v", got, err)
	}
}

// TestKubeletRefusesAll: an error of the service itself is in the text, and retried by the runtime.
func TestKubeletRefusesAll(t *testing.T) {
	t.Parallel()
	socket := serve(t, func(s *grpc.Server) { podresources.RegisterPodResourcesListerServer(s, refusing{}) })
	_, err := device.Sources{Socket: socket, Checkpoint: "/nonexistent"}.Assign(t.Context(), pod, three)
	if netconf.Code(err) != netconf.CodeTryAgainLater || !strings.Contains(err.Error(), "too many requests") {
		t.Fatalf("%v (code %d)", err, netconf.Code(err))
	}
}

type refusing struct {
	podresources.UnimplementedPodResourcesListerServer
}

func (refusing) List(context.Context, *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse, error) {
	return nil, status.Error(codes.ResourceExhausted, "rejected by rate limit: too many requests")
}
