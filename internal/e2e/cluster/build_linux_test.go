package cluster

import (
	"os/exec"
	"testing"
)

// TestBuild builds what the other tests run, ahead of them: internal/e2e/build runs all tests of this name.
func TestBuild(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs the go command on the PATH: ", err)
	}
	build(t)
}
