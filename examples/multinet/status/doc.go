// Package status makes the entries of the annotation k8s.v1.cni.cncf.io/network-status from what plugins answered, in
// the format of the Network Custom Resource Definition De-facto Standard and with multus' keys mtu and gateway.
//
//	entries := status.Of([]status.Attachment{{Name: "default/lan", Result: result}})
//	text, err := status.Encode(entries)
//
// There is exactly one entry for each attachment, also for one whose plugin answers nothing but a version: controllers
// count them. It is made from the first interface of the result that is in the sandbox; a bridge or the host's end of a
// veth pair, which stand before it, are the host's affair.
//
// It is for the plugin beside it and for whoever writes that annotation, a controller say. It is pure: no kernel, file,
// clock or API.
//
// The trap: the results must be those after changes of default routes. Which entry is the default one is read from the
// routes in them, and not from what was asked for.
package status
