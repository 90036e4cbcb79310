package skeltest

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// What a plugin has started and left behind does not keep the tracer for ever, neither a plugin that ends nor one that
// is killed.
func TestDelegateThatHangsIsNotWaitedForWithoutEnd(t *testing.T) {
	t.Parallel()
	for name, kill := range map[string]int{"the plugin ends": 0, "the plugin is killed": 40} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const plugin Binary = "testdata/leaves-behind"
			b := &Bench{Target: Target{Plugin: plugin, Config: `{"cniVersion":"1.0.0","name":"net"}`, Limit: 2 * time.Second}, id: "a/b"}
			ended := time.AfterFunc(time.Minute, func() { panic("the tracer waits without end") })
			defer ended.Stop()
			status, detail := b.judge(Requirement{ID: "a/b", Check: func(b *Bench) {
				b.traced(plugin, Call{Command: "ADD", Config: b.Base, Env: []string{"PATH=" + os.Getenv("PATH")}}, tracing{kill: kill})
			}})
			killed := strings.Contains(detail, "after it was killed before ")
			if status != Failed || !strings.Contains(detail, "did not end within 2s") || killed != (kill > 0) {
				t.Errorf("%s: %s", status, detail)
			}
		})
	}
}

// A system call that could not be looked at is an error, and none of the calls that are counted.
func TestCallThatCannotBeSeenIsNotCounted(t *testing.T) {
	t.Parallel()
	p := tracer{tracing: tracing{kill: 1}}
	if it, err := p.enters(os.Getpid()); it || p.calls != 0 || !errors.Is(err, unix.ESRCH) { // nobody traces it
		t.Errorf("%v, %d calls, %v", it, p.calls, err)
	}
}
