//go:build !linux

package nat

import "github.com/cnikit/cnikit/link"

// socket is one that no other system has.
type socket struct{}

func openSocket(*link.NS) (*socket, error) {
	return nil, &link.Error{Op: "netfilter socket", Err: link.ErrNotSupported}
}

func (*socket) send([]byte) error        { return link.ErrNotSupported }
func (*socket) receive() ([]byte, error) { return nil, link.ErrNotSupported }
func (*socket) close() error             { return nil }
