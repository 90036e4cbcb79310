package skel_test

import (
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

// nameless is a step whose name cannot be had.
type nameless struct{ *step }

func (nameless) Name() string { panic("no name") }

// F2: whatever of an author's panics, and wherever it is called from, is an error document, and an ADD is undone.
func TestF2WhatPanicsOutsideOfTheVerbs(t *testing.T) {
	t.Parallel()
	typedNil := func(context.Context, *netconf.Request) error {
		var err *netconf.Error // what a function returned that should have returned an error
		return err
	}
	j := &journal{}
	call(netconf.Add).Run(t.Context(), t, plugin(t, &step{name: "a", j: j, add: iface}, &step{name: "b", j: j, add: typedNil})).Fails(t, netconf.CodeInternal, "panic")
	j.want(t, "ADD a", "ADD b", "DEL b", "DEL a")
	broken := &step{name: "b", j: j, add: func(context.Context, *netconf.Request) error { return errors.New("broken") }}
	call(netconf.Add).Run(t.Context(), t, plugin(t, nameless{broken})).Fails(t, netconf.CodeInternal, "skel_test.nameless: broken")
	p := plugin(t, &step{name: "a", j: &journal{}, del: typedNil})
	call(netconf.Del).Run(t.Context(), t, p).Fails(t, netconf.CodeInternal, "panic")
	p.Validate = func(*netconf.Request, *config) error { return typedNil(nil, nil) }
	call(netconf.Add).Run(t.Context(), t, p).Fails(t, netconf.CodeInternal, "panic")
}

// closer is what a step keeps for the call.
type closer func() error

func (c closer) Close() error { return c() }

// What is closed at the end of a call cannot spoil its answer, which is printed already.
func TestCloserThatPanicsOrHangs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]closer{
		"panics": func() error { panic("in Close") }, "hangs": func() error { select {} }, "fails": func() error { return errors.New("not closed") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := plugin(t, &step{name: "a", j: &journal{}, add: func(ctx context.Context, req *netconf.Request) error {
				_, err := netconf.Local(req, "k", func() (closer, error) { return c, nil })
				return errors.Join(err, iface(ctx, req))
			}})
			if a := call(netconf.Add).Run(t.Context(), t, p).OK(t); !strings.Contains(a.Stderr, "close what the call had opened") {
				t.Errorf("no warning: %s", a.Stderr)
			}
		})
	}
}

// reader and writer are streams of a program that calls Run.
type reader func([]byte) (int, error)

func (r reader) Read(p []byte) (int, error) { return r(p) }

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

func TestStreamsThatPanic(t *testing.T) {
	t.Parallel()
	panics := func([]byte) (int, error) { panic("in a stream") }
	env := []string{"CNI_COMMAND=DEL", "CNI_CONTAINERID=c1", "CNI_IFNAME=eth0"}
	config := call(netconf.Del).Config
	var out strings.Builder
	if exit := plugin(t).Run(t.Context(), skel.IO{Env: env, Stdin: reader(panics), Stdout: &out, Stderr: io.Discard}); exit != 1 || !strings.Contains(out.String(), "panic: in a stream") {
		t.Errorf("stdin: exit status %d, %s", exit, &out)
	}
	if exit := plugin(t).Run(t.Context(), skel.IO{Env: env, Stdin: strings.NewReader(config + "typo"), Stdout: io.Discard, Stderr: writer(panics)}); exit != 0 {
		t.Errorf("stderr: exit status %d", exit)
	}
	if exit := plugin(t).Run(t.Context(), skel.IO{Env: env[:2], Stdin: strings.NewReader(config), Stdout: writer(panics), Stderr: io.Discard}); exit != 1 {
		t.Errorf("stdout: exit status %d", exit)
	}
}

// Each verb can have a time of its own.
func TestTimeoutOfAVerb(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		of    map[netconf.Command]time.Duration
		all   time.Duration
		wants map[netconf.Command]time.Duration
	}{
		{nil, 0, map[netconf.Command]time.Duration{netconf.Add: 90 * time.Second, netconf.Del: time.Minute, netconf.Check: time.Minute, netconf.Status: time.Minute, netconf.GC: time.Minute}},
		{nil, time.Hour, map[netconf.Command]time.Duration{netconf.Add: time.Hour, netconf.Del: time.Hour}},
		{map[netconf.Command]time.Duration{netconf.Add: 2 * time.Hour, netconf.Check: 0}, time.Hour, map[netconf.Command]time.Duration{netconf.Add: 2 * time.Hour, netconf.Del: time.Hour, netconf.Check: time.Hour}},
		{map[netconf.Command]time.Duration{netconf.Del: 2 * time.Hour, netconf.GC: -1}, 0, map[netconf.Command]time.Duration{netconf.Add: 90 * time.Second, netconf.Del: 2 * time.Hour, netconf.GC: time.Minute}},
	} {
		var got time.Duration
		see := func(ctx context.Context, req *netconf.Request) error {
			end, _ := ctx.Deadline()
			got = time.Until(end)
			if req.Command == netconf.Add {
				return iface(ctx, req)
			}
			return nil
		}
		p := plugin(t, skel.Funcs{Add: see, Check: see, Del: see, GC: see, Status: see}.Step())
		p.Timeout, p.Timeouts = test.all, test.of
		for command, want := range test.wants {
			c := call(command)
			switch command {
			case netconf.Check:
				c.Prev = prevResult
			case netconf.GC:
				c = gcCall()
			}
			c.Run(t.Context(), t, p).OK(t)
			if got <= want-time.Minute/2 || got > want {
				t.Errorf("%+v: %s has %v, expected %v", test, command, got, want)
			}
		}
	}
	p := plugin(t, &step{name: "a", j: &journal{}, add: func(ctx context.Context, _ *netconf.Request) error { <-ctx.Done(); return ctx.Err() }})
	p.Timeout, p.Timeouts = time.Hour, map[netconf.Command]time.Duration{netconf.Add: 10 * time.Millisecond}
	call(netconf.Add).Run(t.Context(), t, p).Fails(t, netconf.CodeTryAgainLater, "ADD did not end within 10ms")
}

// A step, or a stream, that ends its goroutine, as t.FailNow does, is an error at once and not when the time is over.
func TestGoexitIsNoticedAtOnce(t *testing.T) {
	t.Parallel()
	ctx, end := context.WithCancel(t.Context())
	late := time.AfterFunc(30*time.Second, end)
	defer late.Stop()
	j := &journal{}
	gone := func(context.Context, *netconf.Request) error { runtime.Goexit(); return nil }
	call(netconf.Add).Run(ctx, t, plugin(t, &step{name: "a", j: j, add: iface}, &step{name: "b", j: j, add: gone})).Fails(t, netconf.CodeInternal, "b: the goroutine was ended by runtime.Goexit")
	j.want(t, "ADD a", "ADD b", "DEL b", "DEL a")
	call(netconf.Del).Run(ctx, t, plugin(t, &step{name: "a", j: j}, &step{name: "b", j: j, del: gone})).Fails(t, netconf.CodeInternal, "b: the goroutine was ended by runtime.Goexit")
	j.want(t, "DEL b", "DEL a")
	p := plugin(t, &step{name: "a", j: j, add: func(ctx context.Context, req *netconf.Request) error {
		_, err := netconf.Local(req, "k", func() (closer, error) { return func() error { runtime.Goexit(); return nil }, nil })
		return errors.Join(err, iface(ctx, req))
	}})
	if a := call(netconf.Add).Run(ctx, t, p).OK(t); !strings.Contains(a.Stderr, "runtime.Goexit") {
		t.Errorf("no warning: %s", a.Stderr)
	}
	var out strings.Builder
	env := []string{"CNI_COMMAND=DEL", "CNI_CONTAINERID=c1", "CNI_IFNAME=eth0"}
	stdin := reader(func([]byte) (int, error) { runtime.Goexit(); return 0, nil })
	if exit := plugin(t).Run(ctx, skel.IO{Env: env, Stdin: stdin, Stdout: &out, Stderr: io.Discard}); exit != 1 || !strings.Contains(out.String(), "runtime.Goexit") {
		t.Errorf("stdin: exit status %d, %s", exit, &out)
	}
	if ctx.Err() != nil {
		t.Error("noticed by the time-out alone")
	}
}
