// Package kubetest is an API server for tests and demonstrations of package kube and of programs that use it: pods,
// NetworkAttachmentDefinitions and ResourceClaims, in memory.
//
//	api := kubetest.New(t, kubetest.Options{TLS: true})
//	api.Apply(t, manifest)
//	api.Kubeconfig(t, path)
//	api.Latency(300 * time.Millisecond)
//	api.Fail(kubetest.Fault{Method: "PATCH", Times: 2, Status: 503})
//	...
//	text := api.Annotations("default", "web-0")["k8s.v1.cni.cncf.io/network-status"]
//	requests := api.Requests()
//
// It is as strict as the thing, which the tests in internal/e2e hold beside it: a wrong token is 401, a path that is
// not served 404, a body of another media type 415, a merge patch of a pod's status with anything but the UID and
// annotations that are texts 422, one with another UID 422 too, an event whose name is there already 409. What a program that is
// compared with ours sends besides, such as a PUT of a whole pod, is taken with [Options].Lenient only.
//
// [Start] and the command fakeapi beside it need no test.
package kubetest
