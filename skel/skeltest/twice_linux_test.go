package skeltest

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// twice marks the environment of the process in which TestConformTwiceIsAMistake makes the mistake.
const twice = "SKELTEST_TWICE"

// The second of two calls in a test would judge the first one's plugin again.
func TestConformTwiceIsAMistake(t *testing.T) {
	if _, here := os.LookupEnv(twice); here {
		target := keeperTarget("/run/keeper")
		target.State, target.Only = []string{"/run/keeper"}, regexp.MustCompile("^$")
		Conform(t, target)
		Conform(t, target)
		return
	}
	NeedRoot(t)
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run="+exactly(t.Name()), "-test.count=1")
	cmd.Env = append(os.Environ(), twice+"=1")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "called twice") || strings.Contains(string(out), "--- FAIL: "+t.Name()+"/add/works (") {
		t.Errorf("%v\n%s", err, out)
	}
}
