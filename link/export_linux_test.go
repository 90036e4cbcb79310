package link

// Here tells whether the calling thread is in the namespace.
func (n *NS) Here() bool { return n.here() }

// UnknownKind is what becomes of the kernel's answer to a queueing discipline or filter that it does not know.
var UnknownKind = unknown
