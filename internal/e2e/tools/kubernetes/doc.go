// Package kubernetes pins, in a module of its own, the programs of a Kubernetes cluster that the tests of
// internal/e2e/cluster start: kube-apiserver, kubelet, kubectl and etcd. The script pin writes go.mod and
// go.sum anew, for these versions or for others.
//
// They are built by testbin.Tools; the first time takes two cores six minutes and 2.5 GB of the build cache.
package kubernetes
