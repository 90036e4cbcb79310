package device

import (
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
)

// The messages of kubelet's pod-resources service v1 (k8s.io/kubelet/pkg/apis/podresources/v1/api.proto), as far as they
// are about device plugins.
const (
	methodGet  = "/v1.PodResourcesLister/Get"
	methodList = "/v1.PodResourcesLister/List"
)

// resources is PodResources: what a pod has.
type resources struct {
	name, namespace string        // 1, 2
	containers      [][]container // 3, each with its devices
}

// container is ContainerDevices, of one container.
type container struct {
	resource string   // 1
	ids      []string // 2
}

// getRequest is GetPodResourcesRequest.
func getRequest(namespace, name string) []byte {
	message := protowire.AppendTag(nil, 1, protowire.BytesType)
	message = protowire.AppendString(message, name)
	message = protowire.AppendTag(message, 2, protowire.BytesType)
	return protowire.AppendString(message, namespace)
}

// parsePods reads a ListPodResourcesResponse, or a GetPodResourcesResponse: the pods are field 1 of both.
func parsePods(message []byte) (pods []*resources, err error) {
	err = each(message, func(f field) error {
		if f.number != 1 {
			return nil
		}
		pod, err := parsePod(f.bytes)
		pods = append(pods, pod)
		return err
	})
	return pods, err
}

func parsePod(message []byte) (*resources, error) {
	pod := &resources{}
	err := each(message, func(f field) error {
		switch f.number {
		case 1:
			pod.name = string(f.bytes)
		case 2:
			pod.namespace = string(f.bytes)
		case 3:
			devices, err := parseContainer(f.bytes)
			pod.containers = append(pod.containers, devices)
			return err
		}
		return nil
	})
	return pod, err
}

// parseContainer reads a ContainerResources.
func parseContainer(message []byte) (devices []container, err error) {
	err = each(message, func(f field) error {
		if f.number != 2 {
			return nil
		}
		var d container
		err := each(f.bytes, func(f field) error {
			switch f.number {
			case 1:
				d.resource = string(f.bytes)
			case 2:
				d.ids = append(d.ids, string(f.bytes))
			}
			return nil
		})
		devices = append(devices, d)
		return err
	})
	return devices, err
}

// field is one of a message: a text, or a message.
type field struct {
	number protowire.Number
	bytes  []byte
}

// each calls f with the fields of a message that are made of bytes. What this program does not know is passed over.
func each(message []byte, f func(field) error) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return fmt.Errorf("the answer is no message of protocol buffers: %w", protowire.ParseError(n))
		}
		message = message[n:]
		var value []byte
		if kind == protowire.BytesType {
			value, n = protowire.ConsumeBytes(message)
		} else {
			n = protowire.ConsumeFieldValue(number, kind, message)
		}
		if n < 0 {
			return fmt.Errorf("field %d of the answer is no field of protocol buffers: %w", number, protowire.ParseError(n))
		}
		message = message[n:]
		if kind != protowire.BytesType {
			continue
		}
		if err := f(field{number, value}); err != nil {
			return err
		}
	}
	return nil
}
