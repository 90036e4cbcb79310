package skel_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/internal/flock"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
	"github.com/cnikit/cnikit/skel/state"
)

func TestStateIsKeptFromAddToDel(t *testing.T) {
	t.Parallel()
	j := &journal{}
	s := &step{name: "a", j: j}
	s.add = func(ctx context.Context, req *netconf.Request) error {
		return errors.Join(req.State.Save("mtu", []byte("1400")), req.State.Save("name", []byte("ens5")),
			req.State.Save("mtu", []byte("1500")), req.State.Forget("nothing"), iface(ctx, req))
	}
	s.del = func(_ context.Context, req *netconf.Request) error {
		for _, key := range []string{"mtu", "name", "other"} {
			data, err := req.State.Load(key)
			if err != nil {
				return err
			}
			j.note("%s=%s", key, data)
		}
		return req.State.Forget("mtu")
	}
	p := plugin(t, s)
	other := call(netconf.Del)
	other.ContainerID = "c2"
	call(netconf.Add).Run(t.Context(), t, p).OK(t)
	j.want(t, "ADD a")
	other.Run(t.Context(), t, p).OK(t)
	j.want(t, "DEL a", "mtu=", "name=", "other=")
	call(netconf.Del).Run(t.Context(), t, p).OK(t)
	j.want(t, "DEL a", "mtu=1500", "name=ens5", "other=")
	if left, err := os.ReadDir(p.RunDir); err != nil || len(left) > 0 {
		t.Errorf("left behind by a DEL that forgot only one of two: %v, %v", left, err)
	}
}

// An ADD that was undone leaves no state; the state of a live attachment survives a second ADD.
func TestStateOfAFailedAddIsForgotten(t *testing.T) {
	t.Parallel()
	fail := errors.New("broken")
	s := &step{name: "a", j: &journal{}, add: func(ctx context.Context, req *netconf.Request) error {
		if err := req.State.Save("mtu", []byte("1400")); err != nil {
			return err
		}
		if fail != nil {
			return fail
		}
		return iface(ctx, req)
	}}
	second := &step{name: "second", j: &journal{}}
	p := plugin(t, s, second)
	files := func() int {
		left, err := os.ReadDir(p.RunDir)
		if err != nil {
			t.Fatal(err)
		}
		return len(left)
	}
	call(netconf.Add).Run(t.Context(), t, p).Fails(t, 999, "broken")
	if files() > 0 {
		t.Error("state is left by an ADD that was undone")
	}
	fail = nil
	call(netconf.Add).Run(t.Context(), t, p).OK(t)
	s.add = func(context.Context, *netconf.Request) error { return netconf.ErrExists }
	call(netconf.Add).Run(t.Context(), t, p).Fails(t, netconf.CodeExists)
	if files() != 1 {
		t.Error("a second ADD took the state of the live attachment away")
	}
	if err := os.WriteFile(filepath.Join(p.RunDir, "test:net:c1:eth0.state.new"), nil, 0o600); err != nil { // by a killed Save
		t.Fatal(err)
	}
	call(netconf.Del).Run(t.Context(), t, p).OK(t)
	if files() > 0 {
		t.Error("state is left after DEL")
	}
}

// A file that a crash or a full disk left half-written, or that is somebody else's, never blocks a DEL, nor an ADD.
func TestStateThatCannotBeReadBlocksNothing(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{
		"empty": "", "half": `{"version":1,"att`, "newer": `{"version":2,"attachment":"test:net:c1:eth0","entries":{"k":""}}`,
		"another's": `{"version":1,"attachment":{},"entries":{"k":"eA=="}}`, "garbage": "\x00\xff",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := &journal{}
			load := func(ctx context.Context, req *netconf.Request) error {
				data, err := req.State.Load("k")
				j.note("%q", data)
				if req.Command == netconf.Add {
					err = errors.Join(err, iface(ctx, req))
				}
				return err
			}
			p := plugin(t, &step{name: "a", j: j, add: load, del: load})
			path := filepath.Join(p.RunDir, "test:net:c1:eth0.state")
			for _, command := range []netconf.Command{netconf.Add, netconf.Del} {
				if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
				a := call(command).Run(t.Context(), t, p).OK(t)
				j.want(t, string(command)+" a", `""`)
				if !strings.Contains(a.Stderr, path) {
					t.Errorf("no warning that names the file: %s", a.Stderr)
				}
				left, err := os.ReadDir(p.RunDir)
				if command == netconf.Add && (err != nil || len(left) != 1 || left[0].Name() != "test:net:c1:eth0.state.bad") {
					t.Errorf("ADD loses what was there: %v, %v", left, err)
				}
				if command == netconf.Del && len(left) > 0 {
					t.Errorf("left after DEL: %v", left)
				}
			}
		})
	}
}

// A second ADD that replaced what the first had saved, and failed, leaves what DEL of the live attachment needs.
func TestStateOfTheLiveAttachmentSurvivesASecondAdd(t *testing.T) {
	t.Parallel()
	value, broken := "ens5", errors.New("broken")
	s := &step{name: "a", j: &journal{}}
	s.add = func(ctx context.Context, req *netconf.Request) error {
		if err := errors.Join(req.State.Save("device", []byte(value)), iface(ctx, req)); err != nil {
			return netconf.Unchanged(err)
		}
		if value != "ens5" {
			return netconf.Unchanged(broken)
		}
		return nil
	}
	var seen string
	s.del = func(_ context.Context, req *netconf.Request) error {
		data, err := req.State.Load("device")
		seen = string(data)
		return err
	}
	p := plugin(t, s)
	call(netconf.Add).Run(t.Context(), t, p).OK(t)
	value = "wrong"
	call(netconf.Add).Run(t.Context(), t, p).Fails(t, 999, "broken")
	call(netconf.Del).Run(t.Context(), t, p).OK(t)
	if seen != "ens5" {
		t.Errorf("DEL sees %q", seen)
	}
}

// What a rollback could not take away, the DEL that comes later needs the state for.
func TestStateStaysWhereTheRollbackFailed(t *testing.T) {
	t.Parallel()
	s := &step{name: "a", j: &journal{}, add: func(_ context.Context, req *netconf.Request) error {
		return errors.Join(req.State.Save("device", []byte("ens5")), errors.New("broken"))
	}, del: func(context.Context, *netconf.Request) error { return errors.New("busy") }}
	p := plugin(t, s)
	call(netconf.Add).Run(t.Context(), t, p).Fails(t, 999, "broken", "busy")
	var seen string
	s.del = func(_ context.Context, req *netconf.Request) error {
		data, err := req.State.Load("device")
		seen = string(data)
		return err
	}
	call(netconf.Del).Run(t.Context(), t, p).OK(t)
	if seen != "ens5" {
		t.Errorf("DEL sees %q", seen)
	}
}

// gcCall is a GC of which only c1 lives.
func gcCall() skeltest.Call {
	c := call(netconf.GC)
	c.Config = `{"cniVersion":"1.1.0","name":"net","type":"test","cni.dev/valid-attachments":[{"containerID":"c1","ifname":"eth0"}]}`
	return c
}

// collector is a step that keeps the container's ID, and in GC looks at those of the stale.
type collector struct {
	*step
	seen []string
	gc   func() error
}

func (c *collector) GC(_ context.Context, req *netconf.Request) error {
	stale := req.State.(interface {
		Each(func(containerID, ifname string, kept netconf.Recorder) error) error
	})
	if err := req.State.Save("k", nil); netconf.Code(err) != netconf.CodeInternal {
		return fmt.Errorf("GC has a state: %v", err)
	}
	return errors.Join(c.gc(), stale.Each(func(containerID, ifname string, kept netconf.Recorder) error {
		data, err := kept.Load("id")
		c.seen = append(c.seen, fmt.Sprintf("%s/%s=%s", containerID, ifname, data))
		return err
	}))
}

func TestGCForgetsTheStateOfTheStale(t *testing.T) {
	t.Parallel()
	c := &collector{step: &step{name: "a", j: &journal{}}}
	c.add = func(ctx context.Context, req *netconf.Request) error {
		return errors.Join(req.State.Save("id", []byte(req.ContainerID)), iface(ctx, req))
	}
	c.gc = func() error { return errors.New("cannot be collected") }
	p := plugin(t, c)
	files := func() (names []string) {
		left, err := os.ReadDir(p.RunDir)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range left {
			names = append(names, f.Name())
		}
		return names
	}
	long := strings.Repeat("l", 300)
	for _, id := range []string{"c1", "c2", "c3", long} {
		add := call(netconf.Add)
		add.ContainerID = id
		add.Run(t.Context(), t, p).OK(t)
	}
	if err := os.WriteFile(filepath.Join(p.RunDir, "test:net:c3:eth0.state"), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := files()
	gcCall().Run(t.Context(), t, p).Fails(t, 999, "cannot be collected")
	if want := []string{"c2/eth0=c2", "c3/eth0=", long + "/eth0=" + long}; !slices.Equal(c.seen, want) {
		t.Errorf("GC sees %q, expected %q", c.seen, want)
	}
	if now := files(); len(now) != len(before) {
		t.Errorf("state of what could not be collected is gone: %q, before %q", now, before)
	}
	c.gc = func() error { return nil }
	a := gcCall().Run(t.Context(), t, p).OK(t)
	if now := files(); !slices.Equal(now, []string{"test:net:c1:eth0.state"}) {
		t.Errorf("after GC: %q (%s)", now, a.Stderr)
	}
	call(netconf.Del).Run(t.Context(), t, p).OK(t)
}

// A call that was killed leaves the file of its lock; with every pod a new name, they would pile up until the next boot.
func TestGCRemovesTheLocksOfTheDead(t *testing.T) {
	t.Parallel()
	p := plugin(t, &step{name: "a", j: &journal{}})
	long := state.Attachment{Plugin: "test", Network: "net", ContainerID: strings.Repeat("l", 300), IfName: "eth0"}.Key() + ".lock"
	held := "test:net:held:eth0.lock"
	want := []string{
		held, "test:net:c1:eth0.lock", // alive
		"test:other:c2:eth0.lock", "test2:net:c2:eth0.lock", "test:net2:c2:eth0.lock", "test.lock", "x.lock", // others'
	}
	for _, name := range append([]string{"test:net:c2:eth0.lock", "test:net:c1:eth1.lock", long}, want...) {
		if err := os.WriteFile(filepath.Join(p.RunDir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(p.RunDir, "test:net:folder:eth0.lock"), 0o700); err != nil {
		t.Fatal(err)
	}
	want = append(want, "test:net:folder:eth0.lock")
	f, err := os.Open(filepath.Join(p.RunDir, held))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if taken, err := flock.Try(f); !taken {
		t.Fatal(err)
	}
	if a := gcCall().Run(t.Context(), t, p).OK(t); a.Stderr != "" {
		t.Errorf("GC warns: %s", a.Stderr)
	}
	var left []string
	entries, err := os.ReadDir(p.RunDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		left = append(left, e.Name())
	}
	slices.Sort(want)
	if !slices.Equal(left, want) {
		t.Errorf("left are %q, expected %q", left, want)
	}
}

// An ADD that runs while GC does, of which the list says nothing yet, keeps its state.
func TestGCLeavesTheStateOfACallThatRuns(t *testing.T) {
	t.Parallel()
	saved, release := make(chan struct{}), make(chan struct{})
	p := plugin(t, &step{name: "a", j: &journal{}, add: func(ctx context.Context, req *netconf.Request) error {
		err := req.State.Save("k", []byte("v"))
		close(saved)
		<-release
		data, loadErr := req.State.Load("k")
		if string(data) != "v" {
			err = fmt.Errorf("state %q", data)
		}
		return errors.Join(err, loadErr, iface(ctx, req))
	}})
	add := call(netconf.Add)
	add.ContainerID = "new"
	done := make(chan skeltest.Answer)
	go func() { done <- add.Run(t.Context(), t, p) }()
	<-saved
	if a := gcCall().Run(t.Context(), t, p).OK(t); a.Stderr != "" {
		t.Errorf("GC warns: %s", a.Stderr)
	}
	close(release)
	(<-done).OK(t)
}

// The state's own writes are among those that tests break; a panic there is no end of the process.
func TestFaultsInTheStateAreWarnings(t *testing.T) {
	t.Parallel()
	for _, command := range []netconf.Command{netconf.Add, netconf.Del, netconf.GC} {
		s := &step{name: "a", j: &journal{}, add: func(ctx context.Context, req *netconf.Request) error {
			return errors.Join(req.State.Save("k", []byte("v")), iface(ctx, req))
		}}
		p := plugin(t, s)
		add := call(netconf.Add)
		if add.ContainerID = "c1"; command == netconf.GC {
			add.ContainerID = "c2"
		}
		add.Run(t.Context(), t, p).OK(t)
		writes := 0
		ctx := netconf.WithFault(t.Context(), func(context.Context, string) error {
			if writes++; command != netconf.Add || writes == 2 { // ADD: not the Save, but the Undo
				panic("injected")
			}
			return nil
		})
		c := call(command)
		switch command {
		case netconf.Add:
			s.add = func(_ context.Context, req *netconf.Request) error {
				return errors.Join(req.State.Save("k", []byte("w")), netconf.ErrExists)
			}
			c.Run(ctx, t, p).Fails(t, netconf.CodeExists)
			continue
		case netconf.GC:
			c = gcCall()
		}
		if a := c.Run(ctx, t, p).OK(t); !strings.Contains(a.Stderr, "injected") || writes != 1 {
			t.Errorf("%s: no warning: %s", command, a.Stderr)
		}
	}
}
