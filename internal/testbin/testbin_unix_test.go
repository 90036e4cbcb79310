//go:build unix

package testbin

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestBuild builds the programs that the root module's tests ask for: before guests, which cannot.
func TestBuild(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs the go command on the PATH: ", err)
	}
	mains, err := filepath.Glob(filepath.Join(root(), "examples", "plugins", "*", "main.go"))
	if err != nil || len(mains) == 0 {
		t.Fatalf("plugins: %q, %v", mains, err)
	}
	var programs []string
	for _, main := range mains {
		programs = append(programs, Plugin(t, filepath.Base(filepath.Dir(main))))
	}
	tools := []string{HostLocal, Static, DHCP, Loopback, Tap, Bridge, Macvlan, VLAN, Dummy, HostDevice, VRF, CNITool}
	dir := Reference(t, tools...)
	for _, tool := range tools {
		programs = append(programs, filepath.Join(dir, program(tool)))
	}
	for _, name := range programs {
		if _, err := os.Stat(name); err != nil {
			t.Error(err)
		}
	}
	t.Setenv(prebuilt, "")
	t.Setenv("PATH", "") // nothing is built
	if again := Reference(t, tools...); again != dir {
		t.Errorf("built before: %s, expected %s", again, dir)
	}
}

// failed takes the place of a test that fails.
type failed struct{ testing.TB }

func (failed) Helper() {}

func (failed) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func TestWhatWasNotBuiltBeforeFails(t *testing.T) {
	t.Setenv(prebuilt, "1")
	defer func() {
		if said := fmt.Sprint(recover()); !strings.Contains(said, "example.com/none/v2") || !strings.Contains(said, "none: no such file") {
			t.Errorf("said %q", said)
		}
	}()
	Tools(failed{t}, "internal/tools", nil, "example.com/none/v2")
}
