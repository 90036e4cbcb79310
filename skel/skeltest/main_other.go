//go:build !linux

package skeltest

import (
	"os"
	"testing"
)

// Main runs a package's tests and exits. There are no namespaces but on Linux.
func Main(m *testing.M) { os.Exit(m.Run()) }

// NeedRoot skips the test: it makes network namespaces.
func NeedRoot(t testing.TB) {
	t.Helper()
	t.Skip("needs Linux: makes network namespaces and links")
}
