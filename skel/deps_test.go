package skel_test

import (
	"testing"

	"github.com/cnikit/cnikit/internal/deptest"
)

func TestImports(t *testing.T) {
	deptest.Room(t, ".", "netconf", "skel/state", "internal/filekey", "internal/flock", "internal/ownns")
}
