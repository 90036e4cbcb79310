//go:build unix

package testbin

import (
	"os"
	"testing"
)

// ours is the value of the environment variable where Built has set it.
const ours = "by this test"

// Built says, for the rest of the test, that the programs have been built: what it starts, the test binary again
// in most cases, does not ask the go command once more.
func Built(t *testing.T) {
	t.Helper()
	if !Guest() {
		t.Setenv(prebuilt, ours)
	}
}

// Guest tells whether the programs were built before the test began, on the host of the guest that it runs in.
func Guest() bool {
	v, set := os.LookupEnv(prebuilt)
	return set && v != ours
}
