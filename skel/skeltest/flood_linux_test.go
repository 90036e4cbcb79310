package skeltest

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

// flood answers VERSION, and all else with more than anybody wants, without end.
type flood struct{ stderr bool }

func (f flood) Run(_ context.Context, call skel.IO) int {
	for _, kv := range call.Env {
		if kv == "CNI_COMMAND=VERSION" {
			return fixed(`{"cniVersion":"1.0.0","supportedVersions":["1.0.0"]}`).Run(context.Background(), call)
		}
	}
	to := call.Stdout
	if f.stderr {
		to = call.Stderr
	}
	for text := strings.Repeat("x", 1<<20); ; {
		if _, err := io.WriteString(to, text); err != nil {
			return 0
		}
	}
}

// A plugin that talks without end does not take the memory of who judges it, and fails.
func TestFloodFails(t *testing.T) {
	t.Parallel()
	for _, stderr := range []bool{false, true} {
		b := &Bench{Target: Target{Plugin: flood{stderr}, Config: `{"cniVersion":"1.0.0","name":"net"}`}, id: "a/b"}
		status, detail := b.judge(Requirement{ID: "a/b", Check: func(b *Bench) { b.Run(Call{Command: netconf.Del}) }})
		if status != Failed || !strings.Contains(detail, "more than 64 MB") || len(detail) > 2000 {
			t.Errorf("%s %.300q", status, detail)
		}
	}
}
