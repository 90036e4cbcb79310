package delegate_test

import (
	"testing"

	"github.com/cnikit/cnikit/internal/deptest"
)

func TestImports(t *testing.T) {
	deptest.Room(t, ".", "netconf", "internal/filekey", "internal/flock", "os/exec",
		"os.Stderr") // where a delegate says why it failed, when nobody asks for it
}
