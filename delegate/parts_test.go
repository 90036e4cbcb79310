package delegate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/netconf"
)

// many is a Set of n networks, each of the plugin a.
func many(t *testing.T, s *spy, n int) delegate.Set {
	t.Helper()
	set := delegate.Set{Plugins: s.plugins("a", "b")}
	for i := range n {
		set.Attachments = append(set.Attachments, delegate.Attachment{IfName: fmt.Sprintf("if-%d", i),
			Network: parse(t, fmt.Sprintf(`{"cniVersion":"1.1.0","name":"net-%d","type":"a"}`, i))})
	}
	return set
}

// takes is a call that needs so long, or ends with its context.
func takes(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stopped: %w", ctx.Err())
	}
}

// A DEL that takes longer than its equal part is not stopped while there is time enough for all.
func TestEqualPartStopsADelThatHasTime(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		n    int
		time time.Duration
		slow string // the network or plugin whose DEL takes 0.4 s
		run  func(t *testing.T, ctx context.Context, set delegate.Set) error
	}{
		"Set.Del": {20, 6 * time.Second, "net-19", func(t *testing.T, ctx context.Context, set delegate.Set) error {
			return set.Del(ctx, attach(t))
		}},
		"Network.Del": {1, 900 * time.Millisecond, "b", func(t *testing.T, ctx context.Context, set delegate.Set) error {
			n := *set.Attachments[0].Network
			n.Plugins = append(n.Plugins, n.Plugins[0], json.RawMessage(`{"type":"b"}`))
			return n.Del(ctx, set.Plugins, attach(t))
		}},
		"the undoing of Set.Add": {32, time.Hour, "net-30", func(t *testing.T, ctx context.Context, set delegate.Set) error {
			_, err := set.Add(ctx, attach(t))
			if err == nil || !strings.Contains(err.Error(), "full") {
				t.Errorf("%v: expected it to fail", err)
			} else if !strings.Contains(err.Error(), "then:") {
				return nil
			}
			return err
		}},
		"Records.GC": {31, 6 * time.Second, "net-0", func(t *testing.T, ctx context.Context, set delegate.Set) error {
			r := records(t)
			for i, a := range set.Attachments {
				req := attach(t)
				req.ContainerID = fmt.Sprintf("c%02d", i)
				add(t, r, delegate.Set{Attachments: []delegate.Attachment{a}, Plugins: set.Plugins}, req)
			}
			return r.GC(ctx, set.Plugins, collect(t))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &spy{answer: func(ctx context.Context, plugin string, req *netconf.Request) error {
					switch {
					case req.Command == netconf.Del && (req.Network.Name == c.slow || plugin == c.slow):
						return takes(ctx, 400*time.Millisecond)
					case req.Command == netconf.Add && req.Network.Name == "net-31":
						return errors.New("full")
					}
					return nil
				}}
				set := many(t, s, c.n)
				ctx, cancel := context.WithTimeout(t.Context(), c.time)
				defer cancel()
				if err := c.run(t, ctx, set); err != nil {
					t.Errorf("%v, with time left", err)
				}
			})
		})
	}
}

// One that hangs leaves each of the others at least half of its equal part; and where all hang, none goes beyond the whole.
func TestOneThatHangsLeavesTheOthersTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hangs := "net-9"
		s := &spy{answer: func(ctx context.Context, _ string, req *netconf.Request) error {
			if hangs == "" || req.Network.Name == hangs {
				<-ctx.Done()
				return errors.New("hangs")
			}
			return takes(ctx, 45*time.Millisecond)
		}}
		set := many(t, s, 10)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := set.Del(ctx, attach(t)); err == nil || strings.Count(err.Error(), "hangs") != 1 || strings.Contains(err.Error(), "stopped") {
			t.Errorf("%v: expected an error of the one that hangs alone", err)
		}
		hangs = ""
		s.said()
		all, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := set.Del(all, attach(t)); err == nil || strings.Count(err.Error(), "hangs") != 10 || strings.Count(s.said(), "DEL") != 10 {
			t.Errorf("%v: expected that all were tried", err)
		}
	})
}
