package skel_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// One call at a time for an attachment; other attachments do not wait.
func TestOneCallAtATimeForAnAttachment(t *testing.T) {
	t.Parallel()
	var running, most atomic.Int32
	p := plugin(t, &step{name: "a", j: &journal{}, add: func(ctx context.Context, req *netconf.Request) error {
		if n := running.Add(1); n > most.Load() {
			most.Store(n)
		}
		time.Sleep(time.Millisecond) // long enough for others to wait, short enough to catch them between open and lock
		running.Add(-1)
		return iface(ctx, req)
	}})
	var wg sync.WaitGroup
	for range 60 {
		wg.Go(func() { call(netconf.Add).Run(t.Context(), t, p).OK(t) })
	}
	wg.Wait()
	if most.Load() != 1 {
		t.Errorf("%d calls of one attachment at once", most.Load())
	}
	left, err := os.ReadDir(p.RunDir)
	if err != nil || len(left) > 0 {
		t.Errorf("left in the run directory: %v, %v", left, err)
	}

	inside := make(chan struct{})
	p = plugin(t, &step{name: "a", j: &journal{}, add: func(ctx context.Context, req *netconf.Request) error {
		inside <- struct{}{} // each of the two waits for the test to have seen both
		return iface(ctx, req)
	}})
	for i := range 2 {
		c := call(netconf.Add)
		c.ContainerID = fmt.Sprint("c", i)
		wg.Go(func() { c.Run(t.Context(), t, p).OK(t) })
	}
	<-inside
	<-inside
	wg.Wait()
}

func TestLockIsWaitedForWithinTheDeadline(t *testing.T) {
	t.Parallel()
	held, release := make(chan struct{}), make(chan struct{})
	p := plugin(t, &step{name: "a", j: &journal{}, add: func(ctx context.Context, req *netconf.Request) error {
		close(held)
		<-release
		return iface(ctx, req)
	}})
	done := make(chan skeltest.Answer)
	go func() { done <- call(netconf.Add).Run(t.Context(), t, p) }()
	<-held
	q := p
	q.Timeout = 500 * time.Millisecond // reading stdin counts too
	call(netconf.Del).Run(t.Context(), t, q).Fails(t, netconf.CodeTryAgainLater, "another call of this attachment is running")
	close(release)
	(<-done).OK(t)
}

func TestNestedCallOfTheSameAttachmentDoesNotLockAgain(t *testing.T) {
	t.Parallel()
	p := plugin(t)
	inner := plugin(t, &step{name: "inner", j: &journal{}, add: iface})
	inner.RunDir = p.RunDir
	s := &step{name: "outer", j: &journal{}, add: func(ctx context.Context, req *netconf.Request) error {
		return inner.Do(ctx, req)
	}}
	outer := plugin(t, s)
	outer.RunDir, outer.Timeout = p.RunDir, 5*time.Second
	call(netconf.Add).Run(t.Context(), t, outer).OK(t)
}

// A run directory that cannot be used is no reason to leave a container without network, or to keep
// one that should go.
func TestRunDirectoryThatCannotBeUsedIsAWarning(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, dir := range map[string]string{"a file in its place": filepath.Join(file, "run"), "it cannot be made": "/proc/cnikit"} {
		p := plugin(t, &step{name: "a", j: &journal{}, add: iface})
		p.RunDir = dir
		for _, c := range []skeltest.Call{call(netconf.Add), call(netconf.Del)} {
			if a := c.Run(t.Context(), t, p).OK(t); !strings.Contains(a.Stderr, "goes on without a lock") {
				t.Errorf("%s: %s: no warning: %s", name, c.Command, a.Stderr)
			}
		}
	}
}

// On DEL a bad name is only a warning: it must not become a path.
func TestNameOfTheNetworkIsNoPath(t *testing.T) {
	t.Parallel()
	p := plugin(t, &step{name: "a", j: &journal{}})
	outside := t.TempDir()
	precious := filepath.Join(outside, "x:c1:eth0.state")
	if err := os.WriteFile(precious, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	up, err := filepath.Rel(p.RunDir, filepath.Join(outside, "x"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a/../" + up, "../x", "a/b", "a\u0000b"} {
		c := call(netconf.Del)
		c.Config = `{"cniVersion":"1.1.0","name":"` + name + `","type":"test"}`
		c.Run(t.Context(), t, p).OK(t)
	}
	if _, err := os.Stat(precious); err != nil {
		t.Errorf("a DEL has removed a file outside its run directory: %v", err)
	}
	for _, dir := range []string{p.RunDir, outside} {
		if left, err := os.ReadDir(dir); err != nil || len(left) > 1 || len(left) == 1 && dir == p.RunDir {
			t.Errorf("left in %s: %v, %v", dir, left, err)
		}
	}
}

func TestLongNamesOfAttachmentsStayApart(t *testing.T) {
	t.Parallel()
	s := &step{name: "a", j: &journal{}, add: func(ctx context.Context, req *netconf.Request) error {
		return errors.Join(req.State.Save("id", []byte(req.ContainerID)), iface(ctx, req))
	}}
	s.del = func(_ context.Context, req *netconf.Request) error {
		data, err := req.State.Load("id")
		if err == nil && string(data) != req.ContainerID {
			err = fmt.Errorf("state of %s: %q", req.ContainerID, data)
		}
		return err
	}
	p := plugin(t, s)
	calls := []skeltest.Call{call(netconf.Add), call(netconf.Add)}
	for i := range calls {
		calls[i].ContainerID = strings.Repeat("c", 300) + fmt.Sprint(i)
		calls[i].Run(t.Context(), t, p).OK(t)
	}
	for _, c := range calls {
		c.With(netconf.Del).Run(t.Context(), t, p).OK(t)
	}
}
