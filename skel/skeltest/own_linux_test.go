package skeltest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// ownRequirement marks the environment of a process that is a command with a requirement of its own.
const ownRequirement = "SKELTEST_OWN"

// A command can judge a requirement of its own beside those of the suite.
func TestJudgeTakesRequirementsOfOnesOwn(t *testing.T) {
	if _, here := os.LookupEnv(ownRequirement); here {
		own := Requirement{ID: "own/fails", Check: func(b *Bench) { b.Error("as it should") }}
		target := keeperTarget("/run/keeper")
		target.State = []string{"/run/keeper"}
		Judge(context.Background(), target, append(Requirements()[:1], own), func(_ Requirement, o Outcome) bool {
			fmt.Println(o.ID, o.Status, o.Detail)
			return true
		})
		return
	}
	NeedRoot(t)
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run="+exactly(t.Name()), "-test.count=1")
	cmd.Env = append(os.Environ(), ownRequirement+"=1")
	out, err := cmd.CombinedOutput()
	if said := string(out); err != nil || !strings.Contains(said, "add/works pass") || !strings.Contains(said, "own/fails FAIL as it should") {
		t.Errorf("%v\n%s", err, out)
	}
}
