// Package multinet holds the tests of examples/multinet with a real API server: its client, the manifests of
// deploy, and the program, for pods and NetworkAttachmentDefinitions that are really there; and with a real node, where
// containerd calls it, and kubelet writes to the same pods.
//
// What a real server cannot be made to do, to answer late, half, or not at all, is tested in examples/multinet itself, with
// its package kube/kubetest, which is as strict as the one here.
package multinet
