package link

// Here tells whether the calling thread is in the namespace.
func (n *NS) Here() bool { return n.here() }

// Threads is how many are kept in the namespace.
func (n *NS) Threads() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.worker == nil {
		return 0
	}
	return 1
}

// UnknownKind is what becomes of the kernel's answer to a queueing discipline or filter that it does not know.
var UnknownKind = unknown
