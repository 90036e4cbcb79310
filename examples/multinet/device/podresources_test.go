package device

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// The messages are read as the library reads them, with all else that kubelet puts into them.
func TestParsePods(t *testing.T) {
	t.Parallel()
	topology := &podresources.TopologyInfo{Nodes: []*podresources.NUMANode{{ID: -1}}}
	answer := &podresources.ListPodResourcesResponse{PodResources: []*podresources.PodResources{
		{},
		{Name: "web-0", Namespace: "ns1", CpuIds: []int64{-1, 300}, Containers: []*podresources.ContainerResources{
			{},
			{
				Name: "c", CpuIds: []int64{1, 2, 1 << 40},
				Memory: []*podresources.ContainerMemory{{MemoryType: "memory", Size: 1 << 63, Topology: topology}},
				Devices: []*podresources.ContainerDevices{
					{ResourceName: "a/nic", DeviceIds: []string{"1", "2"}, Topology: topology}, {ResourceName: "b/vf", DeviceIds: []string{"ü"}}, {ResourceName: "none"},
				},
				DynamicResources: []*podresources.DynamicResource{{ClaimName: "x", ClaimResources: []*podresources.ClaimResource{{DriverName: "d"}}}},
			},
		}},
	}}
	message, err := proto.Marshal(answer)
	if err != nil {
		t.Fatal(err)
	}
	got, err := parsePods(message)
	if err != nil || len(got) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	if got, want := fmt.Sprintf("%+v", *got[1]), "{name:web-0 namespace:ns1 containers:[[] [{resource:a/nic ids:[1 2]} {resource:b/vf ids:[ü]} {resource:none ids:[]}]]}"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	asked := &podresources.GetPodResourcesRequest{}
	if err := proto.Unmarshal(getRequest("ns1", "web-0"), asked); err != nil || asked.GetPodName() != "web-0" || asked.GetPodNamespace() != "ns1" {
		t.Errorf("%v, %v", asked, err)
	}
}

// Garbage is never a panic, and what the library makes of it is read as the library reads it.
func FuzzParsePods(f *testing.F) {
	message, err := proto.Marshal(&podresources.ListPodResourcesResponse{PodResources: []*podresources.PodResources{
		{Name: "p", Containers: []*podresources.ContainerResources{{Devices: []*podresources.ContainerDevices{{ResourceName: "a/nic", DeviceIds: []string{"1", "2"}}}}}},
	}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(message)
	f.Add(message[:len(message)-1])
	f.Add([]byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01})
	f.Add([]byte{0x0d, 1, 2, 3})
	f.Fuzz(func(t *testing.T, message []byte) {
		_, _ = parsePods(message) // an error or not: it returns
		var want podresources.ListPodResourcesResponse
		if (proto.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(message, &want) != nil {
			return
		}
		message, err := proto.Marshal(&want)
		if err != nil {
			return // a text that is not UTF-8
		}
		got, err := parsePods(message)
		if err != nil || len(got) != len(want.GetPodResources()) {
			t.Fatalf("%v, %v; want %v", got, err, &want)
		}
		for i, p := range want.GetPodResources() {
			if got[i].name != p.GetName() || got[i].namespace != p.GetNamespace() || len(got[i].containers) != len(p.GetContainers()) {
				t.Errorf("%+v, want %v", got[i], p)
			}
		}
	})
}
