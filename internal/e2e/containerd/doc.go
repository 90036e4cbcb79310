// Package containerd runs containerd, 1.6 or 2.4, on a node of a test, and speaks to it through crictl as
// kubelet does: pods, containers, the runtime's word on whether the network is ready.
//
// 2.4 is built from source (internal/e2e/tools/runtimes), 1.6 and runc are Debian's. They accept
// configurations up to the CNI versions 1.1.0 and 1.0.0; 2.4 polls STATUS, 1.6 does not; neither calls CHECK
// or GC. Both call DEL when a pod is stopped and again, without a prevResult, when it is removed.
//
// There is no registry: the image is that of package image, and each runtime has it from the start.
package containerd
