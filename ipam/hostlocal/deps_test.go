package hostlocal_test

import (
	"testing"

	"github.com/cnikit/cnikit/internal/deptest"
)

func TestImports(t *testing.T) {
	deptest.Room(t, ".", "netconf", "delegate", "internal/flock", "os/exec") // os/exec by delegate
}
