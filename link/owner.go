package link

import (
	"fmt"
	"hash/fnv"
	"io"
	"strings"

	"github.com/cnikit/cnikit/netconf"
	"github.com/vishvananda/netlink"
)

// Protocol is the routing protocol number that the routes and rules made by this package carry, so that
// a routing daemon leaves them alone and DEL knows them (ip route show proto 67). It is in none of the
// lists of iproute2's rt_protos.
const Protocol = 67

const (
	aliasPrefix = "cni:"
	maxAlias    = 255 // IFALIASZ-1
	maxWhole    = 32  // a name longer than this is hashed in an alias that would not fit
)

// Owner is the attachment that a link belongs to: the specification's key of its state. It is written
// on each link, in three ways: as its alias, in its group, and in the name of a host-side link.
type Owner struct {
	Network     string // the network's name; empty matches any (a DEL whose configuration cannot be read)
	ContainerID string // the runtime's name of the container (CNI_CONTAINERID); never empty
	IfName      string // the name of the interface inside the container (CNI_IFNAME); never empty
}

// OwnerOf is the attachment that a call is about.
func OwnerOf(req *netconf.Request) Owner {
	return Owner{Network: req.Network.Name, ContainerID: req.ContainerID, IfName: req.IfName}
}

// Alias is what the owner's links carry as ifalias: "cni:NETWORK:CONTAINERID:IFNAME", and ":ROLE"
// where the attachment has several links ("host" for the outer end of a pair). None of the parts
// can hold a ':'. Where it would not fit into the kernel's 255 bytes, a network or container of more than
// 32 bytes is replaced by '~' and its hash.
func (o Owner) Alias(role string) string {
	alias := o.join(role)
	if len(alias) > maxAlias {
		o.Network, o.ContainerID = hashed(o.Network), hashed(o.ContainerID)
		alias = o.join(role)
	}
	return alias
}

func (o Owner) join(role string) string {
	alias := aliasPrefix + o.Network + ":" + o.ContainerID + ":" + o.IfName
	if role != "" {
		alias += ":" + role
	}
	return alias
}

// sharedAlias is what a link carries that a network's attachments share.
func sharedAlias(network string) string {
	alias := aliasPrefix + network
	if len(alias) > maxAlias {
		alias = aliasPrefix + hashed(network)
	}
	return alias
}

func hashed(s string) string {
	if len(s) <= maxWhole {
		return s
	}
	h := fnv.New128a()
	_, _ = io.WriteString(h, s) // a hash takes all
	return fmt.Sprintf("~%x", h.Sum(nil))
}

// Owns tells whether a link carries the owner's mark: its alias, in any role; or no alias at all and the
// owner's group (its maker was killed between the two). It is what the Del of a step of one's own asks
// before it takes a link away. With an empty Network it is any network's alias, as a DEL needs whose
// configuration cannot be read; the group then tells nothing, for it is made of the network's name too.
// What a container's owner wrote inside the container may lie; on the host it is true.
func (o Owner) Owns(l netlink.Link) bool {
	ours, _ := claim{Owner: o}.mark(l)
	return ours
}

// label is an alias, taken apart; a name in it may be hashed.
type label struct {
	Owner
	Role string
}

// parseAlias reads an alias that Alias wrote; ok is false for anything else.
func parseAlias(alias string) (l label, ok bool) {
	rest, ok := strings.CutPrefix(alias, aliasPrefix)
	parts := strings.Split(rest, ":")
	if !ok || len(parts) < 3 || len(parts) > 4 {
		return label{}, false
	}
	l.Network, l.ContainerID, l.IfName = parts[0], parts[1], parts[2]
	if len(parts) == 4 {
		l.Role = parts[3]
	}
	return l, true
}

// of tells whether the label is the owner's, in whichever role.
func (l label) of(o Owner) bool {
	return l.IfName == o.IfName && sameName(l.ContainerID, o.ContainerID) && l.in(o.Network)
}

// in tells whether the label is one of the network's; the empty network is any.
func (l label) in(network string) bool { return network == "" || sameName(l.Network, network) }

func sameName(labelled, name string) bool {
	return labelled == name || strings.HasPrefix(labelled, "~") && labelled == hashed(name)
}

// sum is the hash that Group and HostName are taken from. The NULs keep ("ab","c") and ("a","bc") apart.
func (o Owner) sum(role string) uint64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, o.Network+"\x00"+o.ContainerID+"\x00"+o.IfName+"\x00"+role) // a hash takes all
	sum := h.Sum64()
	// FNV's last byte reaches its upper bits late: of IDs that differ in their end alone, the
	// first 44 bits would be nearly the same. This is the finalizer of MurmurHash3.
	sum ^= sum >> 33
	sum *= 0xff51afd7ed558ccd
	sum ^= sum >> 33
	sum *= 0xc4ceb9fe1a85ec53
	return sum ^ sum>>33
}

// Group is the link group of the owner's links: a hash of 31 bits, never 0 (the group of every link
// that nobody put anywhere). The kernel takes it in the message that creates a link and ignores the alias
// there, so it marks whose the link is from birth: a plugin killed between two messages leaves no orphan.
func (o Owner) Group() uint32 {
	group := uint32(o.sum("") >> 33)
	if group == 0 {
		return 1
	}
	return group
}

// HostName is the name of a link of the owner's in the host's namespace: "veth" and 11 hex digits of a
// hash, 15 bytes. The role tells several apart. It is always the same, so DEL finds the link by
// its name, without a list of all links.
func (o Owner) HostName(role string) string {
	return fmt.Sprintf("veth%011x", o.sum(role)>>20)
}
