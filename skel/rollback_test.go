package skel_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

// What ends an ADD, and that everything made is taken away again: the failed step too, unless it
// found the part there already.
func TestAddRollsBack(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		add   func(context.Context, *netconf.Request) error
		ends  bool // the call's time, when the step begins: a deadline could be over before it does
		code  uint
		msg   string
		keeps bool // the failed step is left alone
	}{
		{name: "an error", add: func(context.Context, *netconf.Request) error { return errors.New("broken") }, code: 999, msg: "b: broken"},
		{name: "a coded error", add: func(context.Context, *netconf.Request) error {
			return fmt.Errorf("make it: %w", netconf.Errorf(netconf.CodeExhausted, "no address left"))
		}, code: 101, msg: "b: make it: no address left"},
		{name: "ErrExists", add: func(context.Context, *netconf.Request) error { return fmt.Errorf("link eth0: %w", netconf.ErrExists) }, code: 100, msg: "link eth0: exists already", keeps: true},
		{name: "an error before it has looked", add: func(context.Context, *netconf.Request) error {
			return fmt.Errorf("parent: %w", netconf.Unchanged(netconf.Errorf(netconf.CodeInvalidNetworkConfig, "no such link")))
		}, code: 7, msg: "parent: no such link", keeps: true},
		{name: "a panic", add: func(context.Context, *netconf.Request) error { panic("F2") }, code: 999, msg: "panic: F2"},
		{name: "a time-out that the step honours", ends: true, add: func(ctx context.Context, _ *netconf.Request) error {
			<-ctx.Done()
			return ctx.Err()
		}, code: 11, msg: "the time is over"},
		{name: "a time-out that the step ignores", ends: true, add: func(context.Context, *netconf.Request) error {
			select {}
		}, code: 11, msg: "left behind"},
		{name: "a success after the end", ends: true, add: func(ctx context.Context, _ *netconf.Request) error {
			<-ctx.Done()
			return nil
		}, code: 11, msg: "the time is over"},
	}
	for _, test := range tests {
		for _, last := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, last=%v", test.name, last), func(t *testing.T) {
				t.Parallel()
				j := &journal{}
				ctx, end := context.WithCancelCause(t.Context())
				add := func(ctx context.Context, req *netconf.Request) error {
					if test.ends {
						end(errTimeOver)
					}
					return test.add(ctx, req)
				}
				steps := skel.Steps{&step{name: "a", j: j, add: iface}, &step{name: "b", j: j, add: add}}
				if !last {
					steps = append(steps, &step{name: "c", j: j})
				}
				a := call(netconf.Add).Run(ctx, t, plugin(t, steps...)).Fails(t, test.code, test.msg)
				want := []string{"ADD a", "ADD b", "DEL b", "DEL a"}
				if test.keeps {
					want = slices.Delete(want, 2, 3)
				}
				j.want(t, want...)
				if strings.Contains(test.msg, "panic") && !strings.Contains(a.Stderr, "skel_test.go") {
					t.Errorf("no stack on stderr: %s", a.Stderr)
				}
			})
		}
	}
}

func TestRollbackFailureIsInTheErrorAndTheCauseGivesTheCode(t *testing.T) {
	t.Parallel()
	j := &journal{}
	bad := func(context.Context, *netconf.Request) error {
		return netconf.Errorf(netconf.CodeBadStore, "the store is gone")
	}
	p := plugin(t, &step{name: "a", j: j, del: bad}, &step{name: "b", j: j, del: func(context.Context, *netconf.Request) error { panic("in the rollback") },
		add: func(context.Context, *netconf.Request) error {
			return netconf.Errorf(netconf.CodeExhausted, "no address left")
		}})
	call(netconf.Add).Run(t.Context(), t, p).Fails(t, netconf.CodeExhausted, "no address left", "rollback", "a: the store is gone", "b: panic: in the rollback")
	j.want(t, "ADD a", "ADD b", "DEL b", "DEL a")
}

// A step that makes steps of its own inside Add has them rolled back once, by itself, and is
// waited for while it does.
func TestStepsInsideAStepRollBackWithinTheirOwnBudget(t *testing.T) {
	t.Parallel()
	j := &journal{}
	ctx, end := context.WithCancel(t.Context()) // by the last step: a deadline could come before it on a busy machine
	inner := skel.Steps{&step{name: "inner", j: j, del: func(ctx context.Context, _ *netconf.Request) error {
		time.Sleep(1500 * time.Millisecond) // longer than a step may go on after its end
		j.note("inner is gone")
		return ctx.Err()
	}}, &step{name: "late", j: j, add: func(ctx context.Context, _ *netconf.Request) error { end(); <-ctx.Done(); return ctx.Err() }}}
	p := plugin(t, &step{name: "outer", j: j, add: inner.Add})
	if a := call(netconf.Add).Run(ctx, t, p).Fails(t, netconf.CodeTryAgainLater); strings.Contains(a.Err.Msg, "then the rollback") {
		t.Errorf("the rollback's time ends with the call's: %s", a.Err.Msg)
	}
	j.want(t, "ADD outer", "ADD inner", "ADD late", "DEL late", "DEL inner", "inner is gone", "DEL outer")
}

func TestResultThatCannotBePrintedIsRolledBack(t *testing.T) {
	t.Parallel()
	j := &journal{}
	old := call(netconf.Add)
	old.Config = `{"cniVersion":"0.2.0","name":"net","type":"test"}`
	p := plugin(t, &step{name: "a", j: j, add: func(_ context.Context, req *netconf.Request) error {
		req.AddInterface(&types100.Interface{Name: req.IfName, Sandbox: req.Netns}) // and no address
		return nil
	}})
	old.Run(t.Context(), t, p).Fails(t, netconf.CodeInvalidNetworkConfig, "0.2.0")
	j.want(t, "ADD a", "DEL a")

	p = plugin(t, &step{name: "a", j: j, add: iface})
	c := call(netconf.Add)
	for _, stdout := range []broken{{0, errors.New("no space left on device")}, {10, nil}} {
		var log strings.Builder
		exit := p.Run(t.Context(), skel.IO{Env: append(c.Env, "CNI_COMMAND=ADD", "CNI_CONTAINERID=c1", "CNI_NETNS="+c.Netns, "CNI_IFNAME=eth0"),
			Stdin: strings.NewReader(c.Config), Stdout: stdout, Stderr: &log})
		if exit == 0 {
			t.Errorf("exit status 0 although stdout took %d bytes, %v", stdout.n, stdout.err)
		}
		j.want(t, "ADD a", "DEL a")
	}
}

// A stdout that has taken half of a result gets no error document behind it, also where it would take one: two documents
// are none.
func TestHalfAResultIsFollowedByNothing(t *testing.T) {
	t.Parallel()
	j := &journal{}
	c := call(netconf.Add)
	var stdout, log strings.Builder
	exit := plugin(t, &step{name: "a", j: j, add: iface}).Run(t.Context(), skel.IO{
		Env:   append(c.Env, "CNI_COMMAND=ADD", "CNI_CONTAINERID=c1", "CNI_NETNS="+c.Netns, "CNI_IFNAME=eth0"),
		Stdin: strings.NewReader(c.Config), Stderr: &log, Stdout: written(func(p []byte) (int, error) {
			if stdout.Len() == 0 {
				n, _ := stdout.Write(p[:len(p)/2]) // never fails
				return n, errors.New("interrupted")
			}
			return stdout.Write(p)
		})})
	j.want(t, "ADD a", "DEL a")
	if exit == 0 || stdout.Len() == 0 || strings.Contains(stdout.String(), `"code"`) || !strings.Contains(log.String(), "not reported on stdout") {
		t.Errorf("exit status %d, stdout %s\n%s", exit, &stdout, &log)
	}
}

// errTimeOver is how the time of a call ends in tests that must not depend on a clock.
var errTimeOver = fmt.Errorf("the time is over: %w", context.DeadlineExceeded)

// written is a stream that a function makes.
type written func([]byte) (int, error)

func (w written) Write(p []byte) (int, error) { return w(p) }

// broken is a stdout that takes the first bytes only.
type broken struct {
	n   int
	err error
}

func (b broken) Write([]byte) (int, error) { return b.n, b.err }

// F1, F5: a step that hangs in the rollback, or in DEL, keeps no other from its work: the link goes although
// IPAM does not answer.
func TestStepThatHangsKeepsNoOtherFromItsWork(t *testing.T) {
	t.Parallel()
	for _, command := range []netconf.Command{netconf.Add, netconf.Del} {
		t.Run(string(command), func(t *testing.T) {
			t.Parallel()
			j := &journal{}
			alive := func(ctx context.Context, _ *netconf.Request) error {
				if end, ok := ctx.Deadline(); command == netconf.Add && (!ok || time.Until(end) < 2*time.Second) {
					return fmt.Errorf("of a budget of 10 s only %v are left", time.Until(end))
				}
				return netconf.Before(ctx, "link del")
			}
			p := plugin(t, &step{name: "link", j: j, del: alive},
				&step{name: "ipam", j: j, del: func(context.Context, *netconf.Request) error { select {} }},
				&step{name: "last", j: j, del: alive, add: func(context.Context, *netconf.Request) error { return errors.New("broken") }})
			if command == netconf.Del {
				p.Timeout = 3 * time.Second
			}
			a := call(command).Run(t.Context(), t, p)
			if a.Exit == 0 || !strings.Contains(a.Err.Msg, "ipam: still running") || strings.Contains(a.Err.Msg, "link:") || strings.Contains(a.Err.Msg, "last: context") {
				t.Errorf("exit status %d: %s", a.Exit, a.Err.Msg)
			}
			want := []string{"DEL last", "DEL ipam", "DEL link"}
			if command == netconf.Add {
				want = append([]string{"ADD link", "ADD ipam", "ADD last"}, want...)
			}
			j.want(t, want...)
		})
	}
}

// The same when the context has ended before the first step is asked.
func TestDelAfterTheEndOfItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	j := &journal{}
	s := skel.Steps{&step{name: "a", j: j, del: func(ctx context.Context, _ *netconf.Request) error { return ctx.Err() }}}
	if err := s.Del(ctx, &netconf.Request{Command: netconf.Del}); err != nil {
		t.Error(err)
	}
	j.want(t, "DEL a")
}

// What went wrong keeps its code when the rollback outlives the deadline.
func TestCauseKeepsItsCodeAfterTheDeadline(t *testing.T) {
	t.Parallel()
	ctx, end := context.WithCancelCause(t.Context())
	p := plugin(t, &step{name: "a", j: &journal{}, add: func(context.Context, *netconf.Request) error {
		return netconf.Errorf(netconf.CodeExhausted, "no address left")
	}, del: func(ctx context.Context, _ *netconf.Request) error {
		end(errTimeOver)
		return ctx.Err()
	}})
	call(netconf.Add).Run(ctx, t, p).Fails(t, netconf.CodeExhausted, "no address left")
}

// What failed by itself, without a code, is not a time-out because the rollback outlives the deadline: a runtime would try
// again what cannot succeed.
func TestRollbackThatOutlivesTheDeadlineMakesNoTimeOut(t *testing.T) {
	t.Parallel()
	for name, fails := range map[string]string{"alone": "a: cable is cut", "inside another": "outer: a: cable is cut"} {
		ctx, end := context.WithCancelCause(t.Context())
		j := &journal{}
		var s skel.Step = &step{name: "a", j: j, add: func(context.Context, *netconf.Request) error {
			return errors.New("cable is cut")
		}, del: func(ctx context.Context, _ *netconf.Request) error {
			end(errTimeOver)
			return ctx.Err()
		}}
		want := []string{"ADD a", "DEL a"}
		if name == "inside another" {
			s = &step{name: "outer", j: j, add: skel.Steps{s}.Add}
			want = []string{"ADD outer", "ADD a", "DEL a", "DEL outer"}
		}
		a := call(netconf.Add).Run(ctx, t, plugin(t, s)).Fails(t, netconf.CodeInternal, fails)
		if strings.Contains(a.Err.Msg, "the time is over") {
			t.Errorf("%s: %s", name, a.Err.Msg)
		}
		j.want(t, want...)
	}
}

func TestStdoutThatNobodyReadsIsATimeOut(t *testing.T) {
	t.Parallel()
	j := &journal{}
	p := plugin(t, &step{name: "a", j: j, add: iface})
	ctx, end := context.WithCancelCause(t.Context())
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	if _, err := w.Write(make([]byte, 64<<10)); err != nil { // fills the pipe
		t.Fatal(err)
	}
	var log strings.Builder
	c := call(netconf.Add)
	exit := p.Run(ctx, skel.IO{Env: append(c.Env, "CNI_COMMAND=ADD", "CNI_CONTAINERID=c1", "CNI_NETNS="+c.Netns, "CNI_IFNAME=eth0"),
		Stdin: strings.NewReader(c.Config), Stdout: written(func(p []byte) (int, error) { end(errTimeOver); return w.Write(p) }), Stderr: &log})
	if exit != 1 || !strings.Contains(log.String(), "the time is over") {
		t.Errorf("exit status %d: %s", exit, &log)
	}
	j.want(t, "ADD a", "DEL a")
}

func TestDelGoesOnAndJoinsItsErrors(t *testing.T) {
	t.Parallel()
	j := &journal{}
	bad := func(context.Context, *netconf.Request) error { return errors.New("busy") }
	p := plugin(t, &step{name: "a", j: j, del: bad}, &step{name: "b", j: j, del: func(context.Context, *netconf.Request) error { panic("oops") }}, &step{name: "c", j: j, del: bad})
	call(netconf.Del).Run(t.Context(), t, p).Fails(t, 999, "a: busy", "b: panic: oops", "c: busy")
	j.want(t, "DEL c", "DEL b", "DEL a")
}

// A log that nobody reads does not hold the call up.
func TestStderrThatNobodyReadsIsGivenUp(t *testing.T) {
	t.Parallel()
	j := &journal{}
	p := plugin(t, &step{name: "a", j: j})
	never := make(chan struct{})
	defer close(never)
	var stdout strings.Builder
	done := make(chan int, 1)
	go func() {
		done <- p.Run(t.Context(), skel.IO{Env: []string{"CNI_COMMAND=DEL", "CNI_CONTAINERID=c1", "CNI_IFNAME=eth0"},
			Stdin: strings.NewReader(`{"cniVersion":"1.1.0","name":"net","typo":1,"another":2}`), Stdout: &stdout, Stderr: blocked(never)})
	}()
	select {
	case exit := <-done:
		if exit != 0 {
			t.Errorf("exit status %d: %s", exit, &stdout)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the call waits for its log")
	}
	j.want(t, "DEL a")
}

// blocked is a stream that takes nothing.
type blocked chan struct{}

func (b blocked) Write([]byte) (int, error) { <-b; return 0, errors.New("closed") }
