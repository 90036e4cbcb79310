package skel_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
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
	if mode, ok := os.LookupEnv("SKEL_TEST_PLUGIN"); ok {
		processMain(mode)
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
	Mode string `json:"mode" doc:"how it is done"`
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
