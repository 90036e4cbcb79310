// Package route decides which attachment has the pod's default routes, when one asks for them ("default-route" in the
// pod's annotation), and makes it so in the kernel and in the attachments' results.
//
//	plan := route.Plan(attachments)             // pure
//	change, err := plan.Apply(ctx, netns)       // all or nothing; read back from the kernel
//	result, err = change.Result("net1", result) // what the record, the status and the runtime get
//	err = change.Undo(ctx)                      // when the ADD fails after this
//
// An attachment that names gateways gets the pod's default route of their family by them, and all other links lose
// theirs of that family. An empty list says that this attachment keeps what its plugin made, in the families of which it
// has an address, and the others lose theirs. Several gateways of a family are several routes, the first with
// the lowest metric. It is about the main table alone: a default route in a table of its own (source routing, a VRF)
// takes nobody's traffic.
//
// It changes routes in the pod's namespace and nothing else: no record, no status. It keeps nothing but what Undo needs.
//
// The trap: what an attachment's plugins answered is not what it has any more. Who keeps the old result has a CHECK that
// fails, and a status that names the wrong gateway: take Result's, for all attachments, also for those that asked for nothing.
package route
