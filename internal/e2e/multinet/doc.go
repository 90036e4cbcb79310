// Package multinet holds the tests of examples/multinet with a real API server: its client, the manifests of
// deploy, and the program, for pods and NetworkAttachmentDefinitions that are really there; and with a real node, where
// containerd calls it, and kubelet writes to the same pods.
//
// What is here because only the real thing tells it:
//
//   - that the manifest's kind is taken, and refuses what is no definition;
//   - that the rights of the manifest are enough, and that none is too many;
//   - what a patch for a pod that is another one by now is answered with, and that of many writers none is lost;
//   - tokens, certificates, and a server that is killed and comes back;
//   - static pods, whose mirror in the API has another UID;
//   - that pods of a node run, reach one another over all networks, and leave nothing.
//
// What a real server cannot be made to do, to answer late, half, or not at all, is tested in examples/multinet itself, with
// its package kube/kubetest, which is as strict as the one here.
//
// The program is built by the test that asks for it, or ahead by internal/e2e/build.
package multinet
