package multinet_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What the README of examples/multinet says to do makes a module that builds, its tests too, and whose demo runs; for
// long it named go.mod alone, and 43 files imported packages that were not there.
func TestCopyAsTheREADMESays(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("needs the go command on the PATH: ", err)
	}
	sdk, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	readme, err := os.ReadFile(filepath.Join(sdk, "examples/multinet/README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(readme), "## Make it yours")
	_, rest, _ = strings.Cut(rest, "```sh\n")
	commands, _, found := strings.Cut(rest, "```")
	if !found || !strings.Contains(commands, " ../mine ") {
		t.Fatalf("the README's commands are %q", commands)
	}
	dir := filepath.Join(t.TempDir(), "mine")
	commands = strings.ReplaceAll(commands, "../mine", dir) + `
		test -z "$(gofmt -l .)"
		if grep -rn cnikit/examples/multinet --include='*.go' .; then exit 1; fi
		./multinet help > help`
	if os.Geteuid() == 0 { // its demo and its tests looked for a program of the name multinet, which a copy's is not
		commands += `
		bash demo.sh
		go test -run '^TestRequests$' ./apitest`
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-euc", commands)
	cmd.Dir = sdk
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, commands, out)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "help")); err != nil || len(text) == 0 {
		t.Errorf("%q, %v", text, err)
	}
}
