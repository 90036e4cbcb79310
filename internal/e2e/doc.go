// Package e2e holds, in a module of its own, real container runtimes as clients of our plugins: fixtures that any
// test of the project may use, and the tests of the example plugins with them. The module keeps what they need
// (libcni, and by go.mods of their own containerd, crictl and Kubernetes) out of what a plugin imports.
//
//	node        a machine for a test: namespaces and cgroups, taken away with the test or its process
//	containerd  containerd 2.4 or 1.6 on a node, by crictl: pods, containers, the network's readiness
//	podman      podman 4.3 on a node
//	cluster     a Kubernetes API server, and nodes with containerd and kubelet
//	libcni      CHECK, GC and STATUS by the runtimes' library, for what no runtime calls
//	record      notes and holds the calls of plugins
//	image       the one image of all containers, which answers TCP
//	multinet    the tests of examples/multinet with a real API server
//
// What runtimes differ in, for plugins (seen with package record): podman and containerd 1.6 never call STATUS,
// containerd 2.4 does each time that it is asked for its own; none calls CHECK or GC. containerd calls DEL when a
// pod is stopped and once more, without a prevResult, when it is removed; podman calls it once, and
// VERSION, with CNI_NETNS, CNI_IFNAME and CNI_PATH "dummy", before each ADD and DEL. A containerd that was killed in the
// middle of an ADD knows the pod when it is back, and DELs it when it is removed; until then the address
// would be taken, had the plugin not undone an ADD whose result nobody reads.
//
// The script build makes ahead what is slow to build. A test skips for want of root only.
package e2e
