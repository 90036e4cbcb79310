// Package kube is the client of the Kubernetes API for a CNI plugin: what one call of a meta plugin asks and says
// there, and no more. It reads a pod, NetworkAttachmentDefinitions and ResourceClaims, patches the annotations of a
// pod's status, and posts events.
//
//	client, err := kube.Load("/etc/cni/net.d/multinet.d/kubeconfig", req.Environ)
//	pod, err := client.Pod(ctx, "default", "web-0")
//	client.Event(ctx, pod, kube.Normal, "AddedInterface", "Add eth0 [10.0.0.5/24] from default/web")
//	err = client.PatchStatus(ctx, pod, map[string]*string{"k8s.v1.cni.cncf.io/network-status": &text})
//	err = client.Flush(ctx)
//
// It is net/http and a reader of YAML. The same with client-go's rest and clientcmd, without its clientset, makes the
// program 4.7 MB larger and each start 0.6 ms longer (16.8 and 12.1 MB with gRPC, which brings net/http; 2.9 and 2.4 ms).
//
// What it does by itself:
//
//   - A request that was not answered, or with 429, 500, 502, 503 or 504, is made again until the context ends, after 50
//     ms at first, then twice as long up to 2 s, or after what Retry-After says. All requests may be repeated: the
//     patch sets the same values again, an event has one name in all tries.
//   - The token's file is read for each request, and a client certificate's for each handshake: kubelet replaces them.
//   - One connection: HTTP/2, where the server has it, so that definitions are read at the same time without another
//     handshake.
//   - Over plain HTTP no token is sent.
//   - A patch names the pod's UID, so that it never describes another pod of the same name.
//
// Not supported, with an error that says so: kubeconfigs with exec or auth-provider, which start programs or need
// libraries of their vendors; basic authentication, which no API server has since Kubernetes 1.19.
//
// The package reads the files that a kubeconfig names, and speaks to one server. It does not read the process's
// environment, which is the caller's to pass on, and keeps nothing but the connections of a [Client].
package kube
