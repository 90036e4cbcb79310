// Package runtimes pins, in a module of its own, the container runtimes that are built from source as
// clients of our plugins: containerd 2.4 with its shim for runc and its ctr, and crictl, which speaks to
// containerd 1.6 too. runc, containerd 1.6 and podman are Debian's (.ci/install).
//
// The packages internal/e2e/containerd and internal/e2e/podman build them, by internal/testbin; a
// whole build without caches takes two minutes, internal/e2e/build does it ahead of the tests.
package runtimes
