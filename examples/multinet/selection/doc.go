// Package selection is what a pod asks for, as the Network Custom Resource Definition De-facto Standard writes it: the
// annotation k8s.v1.cni.cncf.io/networks parsed (Parse), the names of interfaces given (Names), namespaces fenced off
// (Fence), default routes compared (Routes), and one definition with one pod's requests made into an attachment that
// package delegate runs (Network, Element.Attach).
//
// All of it is pure: texts in, values and errors out. No kernel, file, process, clock or API is touched, so all that
// can be wrong with a pod is known before anything is attached, and is fuzzed.
//
// It is for whoever decides what a pod is attached to: the plugin beside it, its explain command, a controller, an
// admission webhook.
//
// Errors carry CNI code 7: a runtime that retries the same pod gets the same answer. They say where in the annotation
// the wrong item stands, and quote it: an annotation is readable by whoever can read the pod.
//
// The trap: an Element's Gateways that are nil and those that are empty are two things. nil is no default-route key;
// empty is "default-route": [], by which this attachment keeps its own default routes and the others lose theirs.
package selection
