// Package node makes machines for tests: namespaces for network, mounts, processes, host name, IPC and cgroups,
// in which container runtimes and kubelets run as on a machine of their own. A test may have any number of them
// at once.
//
// A node has file systems of its own in memory on /run, /var/lib, /var/log and /dev/shm; everything else is the
// machine's, at the same paths, and writable, TMPDIR and the user's cache in any case. Its cgroup is the root of what it sees of cgroups.
//
// A keeper process stands between the test and the node. When the test ends, or the test process is
// killed, whatever way, the keeper kills all that runs in the node (the shims of containerd are nobody's
// children), and removes the cgroups; mounts and links go with the namespaces. If the keeper itself
// is killed, the kernel kills the node, and the cgroups stay.
//
// The trap: a command of [Node.Run] runs in the node, a Go function of the test does not. [Node.Path] is how the
// test reads the node's files.
package node
