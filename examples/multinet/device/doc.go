// Package device finds the devices that the node has given to a pod, and gives each network its own.
//
//	ids, err := device.Sources{API: client}.Assign(ctx, pod, []device.Want{{}, {Resource: "vendor.example/nic"}})
//	err = device.Files{}.Copy(ctx, "vendor.example/nic", ids[1], path)
//
// Who is asked, in this order: kubelet by its pod-resources service (v1, over gRPC on a unix socket), because it is the
// interface that is made for this; the checkpoint file of kubelet's device manager, where the service is not there (a
// kubelet before 1.20) or does not answer; for a claim of dynamic resource allocation the API server. The
// devices of a resource are in the order of the pod's containers, and within a container in that of their IDs: kubelet
// itself has no order, its answer is another one each time.
//
// It is for whoever attaches a pod to networks with devices: the plugin, once for each pod, a daemon as well.
//
// It reads what kubelet and device plugins have, writes only the attachments' device-info files, and remembers nothing:
// CHECK and DEL go by the record, in which the configuration has its device.
//
// The trap: all networks of a pod are to be assigned by one call, the default network first. Two calls give the first
// device twice.
package device
