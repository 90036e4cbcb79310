package link_test

import (
	"testing"

	"github.com/cnikit/cnikit/internal/deptest"
)

func TestImports(t *testing.T) {
	deptest.Room(t, ".", "netconf", "internal/ownns",
		"github.com/vishvananda/netlink", "github.com/vishvananda/netlink/nl", "golang.org/x/sys/unix",
		"github.com/containernetworking/plugins/pkg/ns") // so that authors can hand over an ns.NetNS
}
