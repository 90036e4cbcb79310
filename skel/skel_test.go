package skel_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
	"github.com/cnikit/cnikit/skel/skeltest"
)

func TestMain(m *testing.M) {
	if _, ok := os.LookupEnv("SKEL_TEST_PLUGIN"); ok {
		pluginMain() // never returns; were it to run the tests, they would start one another without end
	}
	skeltest.Main(m)
}

// journal is what the steps of a test's plugin did, in order.
type journal struct {
	mu   sync.Mutex
	seen []string
}

func (j *journal) note(format string, args ...any) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.seen = append(j.seen, fmt.Sprintf(format, args...))
}

func (j *journal) want(t *testing.T, want ...string) {
	t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	if !slices.Equal(j.seen, want) {
		t.Errorf("the steps did %q, expected %q", j.seen, want)
	}
	j.seen = nil
}

// step is a step that keeps a journal and does what the test wants.
type step struct {
	name string
	j    *journal
	add  func(context.Context, *netconf.Request) error
	del  func(context.Context, *netconf.Request) error
}

func (s *step) Name() string { return s.name }

func (s *step) Add(ctx context.Context, req *netconf.Request) error {
	s.j.note("ADD %s", s.name)
	if s.add != nil {
		return s.add(ctx, req)
	}
	return nil
}

func (s *step) Check(context.Context, *netconf.Request) error {
	s.j.note("CHECK %s", s.name)
	return nil
}

func (s *step) Del(ctx context.Context, req *netconf.Request) error {
	s.j.note("%s %s", req.Command, s.name)
	if s.del != nil {
		return s.del(ctx, req)
	}
	return nil
}

func (s *step) GC(_ context.Context, req *netconf.Request) error {
	s.j.note("GC %s %d", s.name, len(req.Network.ValidAttachments))
	return nil
}

func (s *step) Status(context.Context, *netconf.Request) error {
	s.j.note("STATUS %s", s.name)
	if s.add != nil {
		return errors.New("the parent is gone")
	}
	return nil
}

// iface records the interface that an Interface plugin must report.
func iface(_ context.Context, req *netconf.Request) error {
	i := req.AddInterface(&types100.Interface{Name: req.IfName, Sandbox: req.Netns})
	req.AddIP(i, net.IPNet{IP: net.IP{10, 0, 0, 2}, Mask: net.CIDRMask(24, 32)}, nil)
	return nil
}

type config struct {
	Mode string `json:"mode"`
	MTU  int    `json:"mtu"`
}

// plugin makes a plugin of the given steps, with a run directory of its own.
func plugin(t *testing.T, steps ...skel.Step) skel.Plugin[config] {
	return skel.Plugin[config]{
		Name: "test", RunDir: t.TempDir(),
		Steps: func(*netconf.Request, *config) skel.Steps { return steps },
	}
}

// call is an ADD into the test's own namespace, which is the one that can be had without root.
func call(command netconf.Command) skeltest.Call {
	return skeltest.Call{
		Command: command, ContainerID: "c1", Netns: "/proc/self/ns/net", IfName: "eth0", Path: "/nowhere",
		Env:    []string{"CNI_NETNS_OVERRIDE=1"},
		Config: `{"cniVersion":"1.1.0","name":"net","type":"test"}`,
	}
}

const prevResult = `{"cniVersion":"1.1.0","interfaces":[{"name":"eth0","sandbox":"/proc/self/ns/net"}],"ips":[{"address":"10.0.0.2/24"}]}`

func TestStepsRunInOrderAndBackInReverse(t *testing.T) {
	t.Parallel()
	j := &journal{}
	var none *step
	p := plugin(t, &step{name: "a", j: j, add: iface}, nil, none, skel.Steps{&step{name: "b", j: j}, &step{name: "c", j: j}})
	a := call(netconf.Add).Run(t.Context(), t, p).OK(t)
	j.want(t, "ADD a", "ADD b", "ADD c")
	if a.Result.Interfaces[0].Name != "eth0" || a.Result.IPs[0].Address.String() != "10.0.0.2/24" {
		t.Errorf("result %s", a.Stdout)
	}
	call(netconf.Check).WithPrev(a).Run(t.Context(), t, p).OK(t)
	j.want(t, "CHECK a", "CHECK b", "CHECK c")
	call(netconf.Del).Run(t.Context(), t, p).OK(t)
	j.want(t, "DEL c", "DEL b", "DEL a")
	gc := call(netconf.GC)
	gc.Config = `{"cniVersion":"1.1.0","name":"net","type":"test","cni.dev/valid-attachments":[{"containerID":"c","ifname":"eth0"}]}`
	gc.Run(t.Context(), t, p).OK(t)
	j.want(t, "GC c 1", "GC b 1", "GC a 1")
	call(netconf.Status).Run(t.Context(), t, p).Fails(t, netconf.CodePluginNotAvailable, "a: the parent is gone")
	j.want(t, "STATUS a")
	bad := skel.Funcs{Add: iface, Check: iface, Del: iface, GC: iface, Status: func(context.Context, *netconf.Request) error { panic("F2") }}
	call(netconf.Status).Run(t.Context(), t, plugin(t, bad.Step())).Fails(t, netconf.CodeInternal, "panic: F2")
}

// What ends an ADD, and that everything made is taken away again: the failed step too, unless it
// found the part there already.
func TestAddRollsBack(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		add     func(context.Context, *netconf.Request) error
		timeout time.Duration
		code    uint
		msg     string
		keeps   bool // the failed step is left alone
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
		{name: "a time-out that the step honours", timeout: 10 * time.Millisecond, add: func(ctx context.Context, _ *netconf.Request) error {
			<-ctx.Done()
			return ctx.Err()
		}, code: 11, msg: "ADD did not end within 10ms"},
		{name: "a time-out that the step ignores", timeout: 10 * time.Millisecond, add: func(context.Context, *netconf.Request) error {
			select {}
		}, code: 11, msg: "left behind"},
		{name: "a success after the end", timeout: 10 * time.Millisecond, add: func(ctx context.Context, _ *netconf.Request) error {
			<-ctx.Done()
			return nil
		}, code: 11, msg: "ADD did not end within 10ms"},
	}
	for _, test := range tests {
		for _, last := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, last=%v", test.name, last), func(t *testing.T) {
				t.Parallel()
				j := &journal{}
				steps := skel.Steps{&step{name: "a", j: j, add: iface}, &step{name: "b", j: j, add: test.add}}
				if !last {
					steps = append(steps, &step{name: "c", j: j})
				}
				p := plugin(t, steps...)
				p.Timeout = test.timeout
				a := call(netconf.Add).Run(t.Context(), t, p).Fails(t, test.code, test.msg)
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
	inner := skel.Steps{&step{name: "inner", j: j, del: func(ctx context.Context, _ *netconf.Request) error {
		time.Sleep(1500 * time.Millisecond) // longer than a step may go on after its end
		j.note("inner is gone")
		return ctx.Err()
	}}, &step{name: "late", j: j, add: func(ctx context.Context, _ *netconf.Request) error { <-ctx.Done(); return ctx.Err() }}}
	p := plugin(t, &step{name: "outer", j: j, add: inner.Add})
	p.Timeout = 10 * time.Millisecond
	call(netconf.Add).Run(t.Context(), t, p).Fails(t, netconf.CodeTryAgainLater)
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
			alive := func(ctx context.Context, _ *netconf.Request) error { return netconf.Before(ctx, "link del") }
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
	p := plugin(t, &step{name: "a", j: &journal{}, add: func(context.Context, *netconf.Request) error {
		return netconf.Errorf(netconf.CodeExhausted, "no address left")
	}, del: func(ctx context.Context, _ *netconf.Request) error {
		time.Sleep(100 * time.Millisecond) // past the deadline of the ADD
		return ctx.Err()
	}})
	p.Timeout = 50 * time.Millisecond
	call(netconf.Add).Run(t.Context(), t, p).Fails(t, netconf.CodeExhausted, "no address left")
}

func TestStdoutThatNobodyReadsIsATimeOut(t *testing.T) {
	t.Parallel()
	j := &journal{}
	p := plugin(t, &step{name: "a", j: j, add: iface})
	p.Timeout = 50 * time.Millisecond
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
	exit := p.Run(t.Context(), skel.IO{Env: append(c.Env, "CNI_COMMAND=ADD", "CNI_CONTAINERID=c1", "CNI_NETNS="+c.Netns, "CNI_IFNAME=eth0"),
		Stdin: strings.NewReader(c.Config), Stdout: w, Stderr: &log})
	if exit != 1 || !strings.Contains(log.String(), "ADD did not end within 50ms") {
		t.Errorf("exit status %d: %s", exit, &log)
	}
	j.want(t, "ADD a", "DEL a")
}

// A daemon makes a request by hand, without what Parse and Run put into it.
func TestDoOnARequestMadeByHand(t *testing.T) {
	t.Parallel()
	p := plugin(t, &step{name: "a", j: &journal{}, add: iface})
	request := func() *netconf.Request {
		return &netconf.Request{Command: netconf.Add, ContainerID: "c1", IfName: "eth0", Netns: "/proc/self/ns/net", Environ: []string{"CNI_NETNS_OVERRIDE=1"},
			Network: netconf.Network{Name: "net", CNIVersion: "1.1.0"}, Config: []byte(`{"unknown":1}`)}
	}
	req := request()
	if err := p.Do(t.Context(), req); err != nil || len(req.Result.IPs) != 1 {
		t.Errorf("%v, %+v", err, req.Result)
	}
	p = plugin(t, &step{name: "a", j: &journal{}, add: func(context.Context, *netconf.Request) error { panic("in a daemon") }})
	if err := p.Do(t.Context(), request()); netconf.Code(err) != netconf.CodeInternal {
		t.Errorf("a panic of a step: %v", err)
	}
}

func TestDelGoesOnAndJoinsItsErrors(t *testing.T) {
	t.Parallel()
	j := &journal{}
	bad := func(context.Context, *netconf.Request) error { return errors.New("busy") }
	p := plugin(t, &step{name: "a", j: j, del: bad}, &step{name: "b", j: j, del: func(context.Context, *netconf.Request) error { panic("oops") }}, &step{name: "c", j: j, del: bad})
	call(netconf.Del).Run(t.Context(), t, p).Fails(t, 999, "a: busy", "b: panic: oops", "c: busy")
	j.want(t, "DEL c", "DEL b", "DEL a")
}

// F4: what is wrong with a DEL, and yet no reason for it to fail.
func TestF4DelNeedsNothingButItsName(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*skeltest.Call){
		"no netns":                func(c *skeltest.Call) { c.Netns = "" },
		"a netns that is gone":    func(c *skeltest.Call) { c.Netns = "/run/netns/gone" },
		"a netns that is none":    func(c *skeltest.Call) { c.Netns = "/etc/passwd" },
		"no path":                 func(c *skeltest.Call) { c.Path = "" },
		"bad args":                func(c *skeltest.Call) { c.Args = "X" },
		"no JSON":                 func(c *skeltest.Call) { c.Config = "{" },
		"nothing on stdin":        func(c *skeltest.Call) { c.Config = "" },
		"no name":                 func(c *skeltest.Call) { c.Config = `{"cniVersion":"1.1.0"}` },
		"a key of the wrong type": func(c *skeltest.Call) { c.Config = `{"cniVersion":"1.1.0","name":"net","mtu":"x"}` },
		"an unknown version":      func(c *skeltest.Call) { c.Config = `{"cniVersion":"9.9.9","name":"net"}` },
		"a broken prevResult":     func(c *skeltest.Call) { c.Prev = `{"cniVersion":"1.1.0","ips":[{"address":1}]}` },
		"a prevResult of 9.9.9":   func(c *skeltest.Call) { c.Prev = `{"cniVersion":"9.9.9"}` },
		"a strict plugin's typo":  func(c *skeltest.Call) { c.Config = `{"cniVersion":"1.1.0","name":"net","mtuu":1}` },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := &journal{}
			p := plugin(t, &step{name: "a", j: j})
			p.Strict = true
			p.Validate = func(*netconf.Request, *config) error { return errors.New("no longer makes sense") }
			c := call(netconf.Del)
			change(&c)
			c.Run(t.Context(), t, p).OK(t)
			j.want(t, "DEL a")
		})
	}
}

// All that can be known without work is refused before any: code by code.
func TestRefusedBeforeAnyWork(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		verb   netconf.Command
		change func(*skeltest.Call, *skel.Plugin[config])
		code   uint
		msg    string
	}{
		{"no container ID", netconf.Add, func(c *skeltest.Call, _ *skel.Plugin[config]) { c.ContainerID = "" }, 4, "CNI_CONTAINERID"},
		{"no interface name", netconf.Del, func(c *skeltest.Call, _ *skel.Plugin[config]) { c.IfName = "" }, 4, "CNI_IFNAME"},
		{"no netns", netconf.Add, func(c *skeltest.Call, _ *skel.Plugin[config]) { c.Netns = "" }, 4, "CNI_NETNS"},
		{"the netns is gone", netconf.Add, func(c *skeltest.Call, _ *skel.Plugin[config]) { c.Netns = "/run/netns/gone" }, 3, "/run/netns/gone"},
		{"the netns is gone, after others", netconf.Add, func(c *skeltest.Call, _ *skel.Plugin[config]) { c.Netns, c.Prev = "/run/netns/gone", prevResult }, 7, "/run/netns/gone"},
		{"the netns file is stale", netconf.Add, func(c *skeltest.Call, p *skel.Plugin[config]) { c.Netns = staleFile(p.RunDir) }, 3, "its mount is gone"},
		{"the netns is none", netconf.Add, func(c *skeltest.Call, _ *skel.Plugin[config]) { c.Netns = "/etc/passwd" }, 4, "is not a network namespace"},
		{"F10: the host's netns", netconf.Add, func(c *skeltest.Call, _ *skel.Plugin[config]) { c.Env = nil }, 4, "the host's"},
		{"F10: CHECK there", netconf.Check, func(c *skeltest.Call, _ *skel.Plugin[config]) { c.Env, c.Prev = nil, prevResult }, 4, "the host's"},
		{"no command", "", func(*skeltest.Call, *skel.Plugin[config]) {}, 4, "CNI_COMMAND"},
		{"an unknown command", "UPDATE", func(*skeltest.Call, *skel.Plugin[config]) {}, 4, "CNI_COMMAND"},
		{"no JSON", netconf.Add, func(c *skeltest.Call, _ *skel.Plugin[config]) { c.Config = "{" }, 6, "line 1"},
		{"a wrong type", netconf.Add, func(c *skeltest.Call, _ *skel.Plugin[config]) {
			c.Config = `{"cniVersion":"1.1.0","name":"net","mtu":"x"}`
		}, 6, "mtu (line 1, column 42)"},
		{"F8: a typo, strict", netconf.Add, func(c *skeltest.Call, p *skel.Plugin[config]) {
			p.Strict = true
			c.Config = `{"cniVersion":"1.1.0","name":"net","mtuu":1}`
		}, 2, `did you mean "mtu"?`},
		{"Validate", netconf.Add, func(_ *skeltest.Call, p *skel.Plugin[config]) {
			p.Validate = func(req *netconf.Request, _ *config) error { return req.Invalid("mode", "no such mode") }
		}, 7, "mode: no such mode"},
		{"Reject", netconf.Add, func(_ *skeltest.Call, p *skel.Plugin[config]) {
			s := p.Steps
			p.Steps = func(req *netconf.Request, c *config) skel.Steps {
				req.Reject(req.Invalid("ipam", "no"))
				return s(req, c)
			}
		}, 7, "ipam: no"},
		{"no Steps", netconf.Add, func(_ *skeltest.Call, p *skel.Plugin[config]) { p.Steps = nil }, 999, "Name and Steps are needed"},
		{"no Name", netconf.Add, func(_ *skeltest.Call, p *skel.Plugin[config]) { p.Name = "" }, 999, "Name and Steps are needed"},
		{"two mistakes of two kinds", netconf.Add, func(c *skeltest.Call, _ *skel.Plugin[config]) {
			c.IfName, c.Config = "a/b", `{"cniVersion":"1.1.0","name":"net","mtu":"x"}`
		}, 4, "mtu (line 1"},
		{"F8: a typo, in the details of what it led to", netconf.Add, func(c *skeltest.Call, p *skel.Plugin[config]) {
			c.Config = `{"cniVersion":"1.1.0","name":"net","mdoe":"x"}`
			p.Validate = func(req *netconf.Request, _ *config) error { return req.Invalid("mode", "missing") }
		}, 7, `did you mean "mode"?`},
		{"Steps panics", netconf.Add, func(_ *skeltest.Call, p *skel.Plugin[config]) {
			p.Steps = func(*netconf.Request, *config) skel.Steps { panic("no steps") }
		}, 999, "no steps"},
		{"CHECK without prevResult", netconf.Check, func(*skeltest.Call, *skel.Plugin[config]) {}, 7, "prevResult"},
		{"CHECK in 0.3.1", netconf.Check, func(c *skeltest.Call, _ *skel.Plugin[config]) {
			c.Config, c.Prev = `{"cniVersion":"0.3.1","name":"net"}`, prevResult
		}, 1, "0.4.0"},
		{"STATUS in 1.0.0", netconf.Status, func(c *skeltest.Call, _ *skel.Plugin[config]) { c.Config = `{"cniVersion":"1.0.0","name":"net"}` }, 1, "1.1.0"},
		{"GC in 1.0.0", netconf.GC, func(c *skeltest.Call, _ *skel.Plugin[config]) {
			c.Config = `{"cniVersion":"1.0.0","name":"net","cni.dev/valid-attachments":[]}`
		}, 1, "1.1.0"},
		{"GC in 1.0.0 without the list", netconf.GC, func(c *skeltest.Call, _ *skel.Plugin[config]) { c.Config = `{"cniVersion":"1.0.0","name":"net"}` }, 1, "1.1.0"},
		{"GC without the list", netconf.GC, func(*skeltest.Call, *skel.Plugin[config]) {}, 7, "valid-attachments"},
		{"GC with null", netconf.GC, func(c *skeltest.Call, _ *skel.Plugin[config]) {
			c.Config = `{"cniVersion":"1.1.0","name":"net","cni.dev/valid-attachments":null}`
		}, 7, "valid-attachments"},
		{"GC with half an entry", netconf.GC, func(c *skeltest.Call, _ *skel.Plugin[config]) {
			c.Config = `{"cniVersion":"1.1.0","name":"net","cni.dev/attachments":[{"containerID":"x"}]}`
		}, 7, "attachments[0].ifname"},
		{"an unsupported version", netconf.Add, func(c *skeltest.Call, _ *skel.Plugin[config]) { c.Config = `{"cniVersion":"9.9.9","name":"net"}` }, 1, "0.4.0"},
		{"a version not announced", netconf.Add, func(_ *skeltest.Call, p *skel.Plugin[config]) { p.Versions = []string{"1.0.0"} }, 1, "supported: 1.0.0"},
		{"a chained plugin without prevResult", netconf.Add, func(_ *skeltest.Call, p *skel.Plugin[config]) { p.Kind = skel.Chained }, 7, "prevResult"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			j := &journal{}
			p := plugin(t, &step{name: "a", j: j, add: iface})
			c := call(test.verb)
			test.change(&c, &p)
			c.Run(t.Context(), t, p).Fails(t, test.code, test.msg)
			j.want(t)
		})
	}
}

// staleFile makes what a namespace's path is when its bind mount is gone.
func staleFile(dir string) string {
	path := filepath.Join(dir, "netns")
	if err := os.WriteFile(path, nil, 0o444); err != nil {
		panic(err)
	}
	return path
}

// F10: a DEL into the plugin's own namespace, as /proc/PID/ns/net names it after the process id was used again.
func TestF10DelInTheHostsNamespaceSeesNone(t *testing.T) {
	t.Parallel()
	j := &journal{}
	see := func(_ context.Context, req *netconf.Request) error { j.note("netns %q", req.Netns); return nil }
	p := plugin(t, &step{name: "a", j: j, del: see})
	c := call(netconf.Del)
	c.Env = nil
	c.Run(t.Context(), t, p).OK(t)
	j.want(t, "DEL a", `netns ""`)
	call(netconf.Del).Run(t.Context(), t, p).OK(t) // CNI_NETNS_OVERRIDE
	j.want(t, "DEL a", `netns "/proc/self/ns/net"`)
}

func TestKindsHoldTheResultToTheirRule(t *testing.T) {
	t.Parallel()
	nothing := func(context.Context, *netconf.Request) error { return nil }
	tests := []struct {
		name string
		kind skel.Kind
		add  func(context.Context, *netconf.Request) error
		prev string
		code uint
	}{
		{"an interface plugin that reports none", skel.Interface, nothing, "", 999},
		{"an interface plugin", skel.Interface, iface, "", 0},
		{"a chained plugin that adds nothing", skel.Chained, nothing, prevResult, 0},
		{"an IPAM plugin that reports an interface", skel.IPAM, iface, "", 999},
		{"a meta plugin that adds nothing", skel.Meta, nothing, "", 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := plugin(t, &step{name: "a", j: &journal{}, add: test.add})
			p.Kind = test.kind
			c := call(netconf.Add)
			c.Prev = test.prev
			if a := c.Run(t.Context(), t, p); a.Err.Code != test.code {
				t.Errorf("code %d, expected %d: %s", a.Err.Code, test.code, a.Stdout)
			}
		})
	}
	p := plugin(t, &step{name: "a", j: &journal{}, add: func(_ context.Context, req *netconf.Request) error {
		req.AddIP(-1, net.IPNet{IP: net.IP{10, 0, 0, 2}, Mask: net.CIDRMask(24, 32)}, nil)
		return nil
	}})
	p.Kind = skel.IPAM
	c := call(netconf.Add)
	c.Netns, c.Prev = "/run/netns/not/yet", prevResult
	if a := c.Run(t.Context(), t, p).OK(t); len(a.Result.IPs) != 1 || len(a.Result.Interfaces) != 0 {
		t.Errorf("an IPAM plugin hands its caller's prevResult on: %s", a.Stdout)
	}
}

func TestDNSOfTheConfigurationGoesIntoTheResult(t *testing.T) {
	t.Parallel()
	c := call(netconf.Add)
	c.Config = `{"cniVersion":"1.1.0","name":"net","type":"test","dns":{"nameservers":["10.0.0.1"]}}`
	a := c.Run(t.Context(), t, plugin(t, &step{name: "a", j: &journal{}, add: iface})).OK(t)
	if !slices.Equal(a.Result.DNS.Nameservers, []string{"10.0.0.1"}) {
		t.Errorf("dns %+v", a.Result.DNS)
	}
}

// Announce only what is true: a verb that was not written takes the versions with it that have it.
func TestFuncsAnnounceOnlyWhatTheyHave(t *testing.T) {
	t.Parallel()
	do := func(context.Context, *netconf.Request) error { return nil }
	tests := []struct {
		name  string
		funcs skel.Funcs
		last  string
	}{
		{"all", skel.Funcs{Add: iface, Check: do, Del: do, GC: do, Status: do}, "1.1.0"},
		{"no STATUS", skel.Funcs{Add: iface, Check: do, Del: do, GC: do}, "1.0.0"},
		{"no GC", skel.Funcs{Add: iface, Check: do, Del: do, Status: do}, "1.0.0"},
		{"no CHECK", skel.Funcs{Add: iface, Del: do, GC: do, Status: do}, "0.3.1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := plugin(t, skel.Steps{test.funcs.Step()})
			v := call(netconf.Version).Run(t.Context(), t, p).OK(t)
			if !strings.HasSuffix(strings.TrimSpace(v.Stdout), fmt.Sprintf("%q]}", test.last)) {
				t.Errorf("announces %s, expected up to %s", v.Stdout, test.last)
			}
			a := call(netconf.Add).Run(t.Context(), t, p)
			if test.last == "1.1.0" {
				a.OK(t)
			} else {
				a.Fails(t, netconf.CodeIncompatibleVersion, "its steps do not have [", strings.TrimPrefix(test.name, "no "))
			}
		})
	}
}

// A pointer would be nil, or shared: the configuration would be dropped in silence.
func TestConfigurationThatIsNoStructIsRefused(t *testing.T) {
	t.Parallel()
	p := skel.Plugin[*config]{Name: "test", RunDir: t.TempDir(), Steps: func(*netconf.Request, **config) skel.Steps { return nil }}
	for _, command := range []netconf.Command{netconf.Add, netconf.Version} {
		call(command).Run(t.Context(), t, p).Fails(t, netconf.CodeInternal, "*skel_test.config", "expected a struct")
	}
}

func TestVersionEchoesTheVersionAskedWith(t *testing.T) {
	t.Parallel()
	for config, want := range map[string]string{
		`{"cniVersion":"0.3.1"}`: "0.3.1", `{"cniVersion":"1.0.0"}`: "1.0.0", `{}`: "0.1.0", ``: "1.1.0",
	} {
		c := call(netconf.Version)
		c.Config = config
		a := c.Run(t.Context(), t, plugin(t)).OK(t)
		if want := fmt.Sprintf(`{"cniVersion":%q,"supportedVersions":["0.1.0","0.2.0","0.3.0","0.3.1","0.4.0","1.0.0","1.1.0"]}`, want); strings.TrimSpace(a.Stdout) != want {
			t.Errorf("%q: %s, expected %s", config, a.Stdout, want)
		}
	}
	p := plugin(t)
	p.Versions = []string{"0.4.0", "1.0.0"}
	c := call(netconf.Version)
	c.Config = ""
	if a := c.Run(t.Context(), t, p).OK(t); strings.TrimSpace(a.Stdout) != `{"cniVersion":"1.0.0","supportedVersions":["0.4.0","1.0.0"]}` {
		t.Errorf("nothing asked: %s", a.Stdout)
	}
}

func TestStdinThatNeverEndsIsATimeOut(t *testing.T) {
	t.Parallel()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	p := plugin(t)
	p.Timeout = 20 * time.Millisecond
	var out, log strings.Builder
	if exit := p.Run(t.Context(), skel.IO{Env: []string{"CNI_COMMAND=ADD"}, Stdin: r, Stdout: &out, Stderr: &log}); exit != 1 || !strings.Contains(out.String(), `"code": 11`) {
		t.Errorf("exit %d: %s", exit, out.String())
	}
}
