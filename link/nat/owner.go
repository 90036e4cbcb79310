package nat

import (
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"strings"

	"github.com/cnikit/cnikit/link"
	"github.com/containernetworking/cni/pkg/types"
)

// maxComment is the longest comment that nft takes, when a saved ruleset is loaded again.
const maxComment = 128

// mark is the comment of the owner's elements: the alias of its links, "cni:NETWORK:CONTAINERID:IFNAME". Where
// that is too long, a network or container of more than 32 bytes is replaced by '~' and its hash.
func mark(o link.Owner) string {
	s := o.Alias("")
	if len(s) > maxComment {
		o.Network, o.ContainerID = shortened(o.Network), shortened(o.ContainerID)
		s = o.Alias("")
	}
	return s
}

func shortened(s string) string {
	if len(s) <= 32 {
		return s
	}
	h := fnv.New128a()
	_, _ = io.WriteString(h, s) // a hash takes all
	return fmt.Sprintf("~%x", h.Sum(nil))
}

// parseMark reads a comment that mark wrote; ok is false for anything else.
func parseMark(s string) (o link.Owner, ok bool) {
	rest, ok := strings.CutPrefix(s, "cni:")
	parts := strings.Split(rest, ":")
	if !ok || len(parts) != 3 {
		return o, false
	}
	return link.Owner{Network: parts[0], ContainerID: parts[1], IfName: parts[2]}, true
}

// marks tells whether a comment is the owner's. The empty network is any.
func marks(s string, o link.Owner) bool {
	have, ok := parseMark(s)
	return ok && have.IfName == o.IfName && same(have.ContainerID, o.ContainerID) && (o.Network == "" || same(have.Network, o.Network))
}

func same(written, name string) bool { return written == name || written == shortened(name) }

// stale tells whether a comment is of an attachment of the network that is not in the list of those that live.
func stale(s, network string, valid []types.GCAttachment) bool {
	have, ok := parseMark(s)
	if !ok || !same(have.Network, network) {
		return false
	}
	for _, v := range valid {
		if marks(s, link.Owner{Network: network, ContainerID: v.ContainerID, IfName: v.IfName}) {
			return false
		}
	}
	return true
}

// The comment of an element or a rule, as nft keeps it: a type, which is 0, a length, a text with a NUL.

func comment(s string) []byte {
	return append(append([]byte{0, byte(len(s) + 1)}, s...), 0)
}

func commentOf(userdata []byte) string {
	for len(userdata) >= 2 {
		kind, n := userdata[0], int(userdata[1])+2
		if n > len(userdata) {
			return ""
		}
		if kind == 0 {
			return str(userdata[2:n])
		}
		userdata = userdata[n:]
	}
	return ""
}

// gone: of a table, set or element that is not there the kernel says ENOENT.
func gone(err error) bool { return link.Gone(err) }

// absent tells whether an error says that the kernel has no nftables at all, and so nothing of ours.
func absent(err error) bool { return errors.Is(err, link.ErrNotSupported) }
