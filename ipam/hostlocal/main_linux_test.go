package hostlocal_test

import (
	"fmt"
	"io"
	"os"
	"syscall"
	"testing"

	"github.com/cnikit/cnikit/skel/skeltest"
)

// asHolder marks the environment of a test binary that is to hold a lock: it says so on stdout, and waits for its end.
const asHolder = "HOSTLOCAL_TEST_HOLDER"

func TestMain(m *testing.M) {
	if path, ok := os.LookupEnv(asHolder); ok {
		hold(path) // must never go on to the tests, which would start it again
		os.Exit(1)
	}
	skeltest.Main(m)
}

func hold(path string) {
	f, err := os.OpenFile(path, os.O_RDONLY|os.O_CREATE, 0o600)
	if err == nil {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
	}
	fmt.Println("held", err)
	_, _ = io.ReadAll(os.Stdin) // until it is killed
}
