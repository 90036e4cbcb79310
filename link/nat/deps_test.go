package nat_test

import (
	"testing"

	"github.com/cnikit/cnikit/internal/deptest"
)

func TestImports(t *testing.T) {
	deptest.Room(t, ".", "netconf", "link", "golang.org/x/sys/unix", "github.com/vishvananda/netlink") // link's handle is netlink's
}
