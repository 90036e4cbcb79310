package skeltest

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/internal/testbin"
	"github.com/cnikit/cnikit/netconf"
)

const staticPackage = "github.com/cnikit/cnikit/examples/plugins/static"

// What is built can be called, also by the process of a requirement, which builds nothing.
func TestBuildsPrograms(t *testing.T) {
	NeedRoot(t) // as with all that is built for tests: nobody may have no cache
	dir := Build(t, staticPackage)
	call := Call{Command: netconf.Version, Config: `{"cniVersion":"1.1.0"}`}
	call.Run(t.Context(), t, Binary(filepath.Join(dir, "static"))).OK(t)
	if again := Build(t, staticPackage); again != dir {
		t.Errorf("the second time in %s, the first in %s", again, dir)
	}
	t.Setenv(judgeOnly, "add/works TestX")
	t.Setenv("PATH", "")
	if of := Build(t, staticPackage); of != dir {
		t.Errorf("the process of a requirement has %s, the test %s", of, dir)
	}
}

// fatal takes the place of a test that fails.
type fatal struct{ testing.TB }

func (fatal) Helper() {}

func (fatal) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func TestWhatCannotBeBuiltFails(t *testing.T) {
	NeedRoot(t) // as above
	if testbin.Guest() {
		t.Skip("nothing is built in a guest")
	}
	defer func() {
		if said := fmt.Sprint(recover()); !strings.Contains(said, "./nowhere") {
			t.Errorf("said %q", said)
		}
	}()
	Build(fatal{t}, "./nowhere")
}
