package link

// Here tells whether the calling thread is in the namespace.
func (n *NS) Here() bool { return n.here() }
