package ipam_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/ipam"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

// A Go value takes the place of the program that has its name, and only of that.
func TestInProcess(t *testing.T) {
	t.Parallel()
	var verbs []netconf.Command
	var prev *types100.Result
	pool := delegate.InProcess{Type: "fake", Do: func(_ context.Context, req *netconf.Request) error {
		verbs = append(verbs, req.Command)
		if prev = req.Prev; req.Command == netconf.Add {
			req.AddIP(-1, net.IPNet{IP: net.IPv4(10, 0, 0, 3), Mask: net.CIDRMask(24, 32)}, net.IPv4(10, 0, 0, 1))
		}
		return nil
	}}
	other := delegate.InProcess{Type: "other", Do: func(context.Context, *netconf.Request) error { return errors.New("not me") }}
	config := strings.Replace(withIPAM, `"n":`, `"prevResult":{"cniVersion":"1.1.0","interfaces":[{"name":"eth0","sandbox":"/n"}],"ips":[{"address":"10.9.0.3/24"}]},"n":`, 1)
	req, log := call(t, netconf.Add, config) // no CNI_PATH
	step := ipam.FromConfig(req, other, pool)
	if err := step.Add(t.Context(), req); err != nil || len(req.Result.IPs) != 1 || req.Result.IPs[0].Gateway.String() != "10.0.0.1" || log.Len() > 0 {
		t.Errorf("%v, result %v, warned %q: expected the new address alone", err, req.Result, log)
	}
	if prev != nil || req.Prev == nil {
		t.Errorf("what an IPAM plugin answers is its own: prevResult %v, the caller's %v", prev, req.Prev)
	}
	for _, run := range []func(context.Context, *netconf.Request) error{step.Check, step.Del, step.GC, step.Status} {
		if err := run(t.Context(), req); err != nil {
			t.Error(err)
		}
	}
	if fmt.Sprint(verbs) != "[ADD CHECK DEL GC STATUS]" || prev == nil {
		t.Errorf("verbs %v, prevResult %v", verbs, prev)
	}
	dir := program(t, book, `{"ips":[{"address":"10.0.0.4/24"}]}`)
	req, _ = call(t, netconf.Add, withIPAM, dir)
	if err := ipam.FromConfig(req, other).Add(t.Context(), req); err != nil || calls(t, dir) != "ADD" {
		t.Errorf("%v: calls %q", err, calls(t, dir))
	}
}

// What is wrong with the section of a Go value is said before any work, by its own Validate; not to DEL and GC, which need no
// section to be right.
func TestInProcessIsValidated(t *testing.T) {
	t.Parallel()
	asked := 0
	pool := delegate.InProcess{Type: "fake", Validate: func(req *netconf.Request) error {
		asked++
		return req.Invalid("ipam.subnet", "too small")
	}}
	for command, want := range map[netconf.Command]int{netconf.Add: 1, netconf.Check: 1, netconf.Status: 1, netconf.Del: 0, netconf.GC: 0, netconf.Version: 0} {
		asked = 0
		req, _ := call(t, netconf.Add, withIPAM)
		req.Command = command
		step := ipam.FromConfig(req, pool)
		err := req.Rejected()
		if step == nil || asked != want || want == 1 && (netconf.Code(err) != netconf.CodeInvalidNetworkConfig || !strings.Contains(err.Error(), "ipam.subnet (line 1, column ")) || want == 0 && err != nil {
			t.Errorf("%s: step %v, asked %d times, rejected %v", command, step, asked, err)
		}
	}
}

type config struct{}

// add serves an ADD by a plugin that needs no kernel: IPAM, then a step that may fail.
func add(ctx context.Context, t *testing.T, req *netconf.Request, last error) error {
	t.Helper()
	req.Netns = fmt.Sprintf("/proc/%d/ns/net", os.Getpid()) // the test's own; nothing touches it
	req.Environ = append(req.Environ, "CNI_NETNS_OVERRIDE=1")
	return skel.Plugin[config]{Name: "main", Kind: skel.Meta, RunDir: t.TempDir(), Steps: func(req *netconf.Request, _ *config) skel.Steps {
		return skel.Steps{
			ipam.FromConfig(req),
			skel.Funcs{Add: func(context.Context, *netconf.Request) error { return last }}.Step(),
		}
	}}.Do(ctx, req)
}

// old is a version that skel.Funcs without CHECK and the like can have.
func old(config string) string { return strings.Replace(config, `"1.1.0"`, `"0.3.0"`, 1) }

// Under skel: whatever fails releases the address by one DEL and is told once; a rejected section does no
// work at all, nor does a program that is missing need a DEL; and no section is no step.
func TestUnderSkel(t *testing.T) {
	t.Parallel()
	const ok = `{"ips":[{"address":"10.0.0.3/24"}]}`
	for _, c := range []struct {
		name, conf string
		last       error
		said       string // by the program: an error document, or a result
		code       uint
		word       string // in the error, once
		calls      string
	}{
		{"a later step fails", withIPAM, errors.New("no link"), ok, 999, "no link", "ADD DEL"},
		{"the ADD fails", withIPAM, nil, `{"code":101,"msg":"no room"}`, 101, "no room", "ADD DEL"},
		{"it fails by a code 100 of its own", withIPAM, nil, `{"code":100,"msg":"Failed to allocate"}`, 100, "allocate", "ADD DEL"},
		{"an answer that cannot be used", withIPAM, nil, `{"ips":[{"address":"10.0.0.0/24"}]}`, 104, "broadcast", "ADD DEL"},
		{"no answer", withIPAM, nil, `hello`, 104, "not JSON", "ADD DEL"},
		{"the program is missing", strings.Replace(withIPAM, "fake", "fkae", 1), nil, ok, 5, "ipam.type (line 1, column 88): delegate", ""},
		{"success", withIPAM, nil, ok, 0, "", "ADD"},
		{"rejected", `{"cniVersion":"0.2.0","name":"net","type":"main"}`, nil, ok, 7, "cniVersion 0.3.0", ""},
		{"no section", `{"cniVersion":"0.3.0","name":"net","type":"main"}`, nil, ok, 0, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := program(t, book, c.said)
			if strings.Contains(c.said, "code") {
				write(t, filepath.Join(dir, "answer"), "")
				write(t, filepath.Join(dir, "fail.ADD"), c.said)
			}
			req, _ := call(t, netconf.Add, old(c.conf), dir)
			err := add(t.Context(), t, req, c.last)
			if netconf.Code(err) != c.code || err != nil && strings.Count(err.Error(), c.word) != 1 {
				t.Errorf("code %d: %v", netconf.Code(err), err)
			}
			if calls(t, dir) != c.calls || (len(leases(t, dir)) > 0) != (c.code == 0 && c.calls != "") {
				t.Errorf("calls %q, leases %q", calls(t, dir), leases(t, dir))
			}
		})
	}
}

// At whatever operation an ADD is broken, no address stays taken.
func TestBrokenAtEachOperation(t *testing.T) {
	t.Parallel()
	dir := program(t, book, `{"ips":[{"address":"10.0.0.3/24"}]}`)
	for n := 1; ; n++ {
		count := 0
		ctx := netconf.WithFault(t.Context(), func(context.Context, string) error {
			if count++; count == n {
				return io.ErrClosedPipe
			}
			return nil
		})
		req, _ := call(t, netconf.Add, old(withIPAM), dir)
		err := add(ctx, t, req, nil)
		if count < n {
			if err != nil || n < 2 {
				t.Errorf("%d operations, %v", count, err)
			}
			return
		}
		if !errors.Is(err, io.ErrClosedPipe) || len(leases(t, dir)) > 0 {
			t.Errorf("operation %d: %v, leases %q", n, err, leases(t, dir))
		}
	}
}

// A DEL whose configuration has lost its name left the address taken; where a step has kept something, skel finds the network
// by it, and the IPAM plugin is called with its name.
func TestADelThatNamesNoNetworkReleases(t *testing.T) {
	t.Parallel()
	dir := program(t, book, `{"ips":[{"address":"10.0.0.3/24"}]}`)
	keep := func(_ context.Context, req *netconf.Request) error { return req.State.Save("k", nil) }
	p := skel.Plugin[config]{Name: "main", Kind: skel.Meta, RunDir: t.TempDir(), Steps: func(req *netconf.Request, _ *config) skel.Steps {
		return skel.Steps{skel.Funcs{Add: keep}.Step(), ipam.FromConfig(req)}
	}}
	req, _ := call(t, netconf.Add, old(withIPAM), dir)
	req.Netns, req.Environ = fmt.Sprintf("/proc/%d/ns/net", os.Getpid()), append(req.Environ, "CNI_NETNS_OVERRIDE=1")
	if err := p.Do(t.Context(), req); err != nil || len(leases(t, dir)) != 1 {
		t.Fatalf("%v, leases %v", err, leases(t, dir))
	}
	req, log := call(t, netconf.Del, strings.Replace(old(withIPAM), `"name":"net",`, "", 1), dir)
	err := p.Do(t.Context(), req)
	data, readErr := os.ReadFile(filepath.Join(dir, "stdin.DEL"))
	if err != nil || len(leases(t, dir)) != 0 || readErr != nil || !strings.Contains(string(data), `"name":"net"`) {
		t.Errorf("%v, leases %v, called with %s (%v), warned %s", err, leases(t, dir), data, readErr, log)
	}
}
