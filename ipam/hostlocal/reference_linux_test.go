package hostlocal_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cnikit/cnikit/internal/testbin"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// reference makes the call with the reference plugin, and returns what an ADD printed as addresses.
func (c call) reference(t testing.TB, program string) ([]string, error) {
	t.Helper()
	req := c.request(t)
	cmd, out := exec.CommandContext(t.Context(), program), &bytes.Buffer{}
	cmd.Env, cmd.Stdin, cmd.Stdout = req.Env(), bytes.NewReader(req.Config), out
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	if c.verb != netconf.Add {
		return nil, nil
	}
	var result struct {
		IPs []struct{ Address, Gateway string }
	}
	if err := json.Unmarshal(out.Bytes(), &result); err != nil {
		return nil, err
	}
	var got []string
	for _, ip := range result.IPs {
		got = append(got, ip.Address+" "+ip.Gateway)
	}
	return got, nil
}

func program(t testing.TB) string {
	t.Helper()
	skeltest.NeedRoot(t) // the program is built as root, or was built before
	return filepath.Join(testbin.Reference(t, testbin.HostLocal), "host-local")
}

// Ours and the reference plugin's take turns on one store, and two stores that were used by one alone are the same: the
// addresses in their order (several ranges to a set, gateways in the middle, around the end), the files, and what is freed.
func TestSameAsReference(t *testing.T) {
	t.Parallel()
	ref := program(t)
	keys := config(`"ranges":[[{"subnet":"10.0.0.0/29","gateway":"10.0.0.4"},{"subnet":"10.0.1.0/24","rangeStart":"10.0.1.7","rangeEnd":"10.0.1.9"}],[{"subnet":"fd00::/125"}]],"routes":[{"dst":"0.0.0.0/0"}]`)
	ours, theirs, both, htob := t.TempDir(), t.TempDir(), t.TempDir(), t.TempDir()
	step := 0
	do := func(verb netconf.Command, id, args string) {
		t.Helper()
		step++
		in := call{verb: verb, id: id, config: keys, args: args}
		run := func(dir string, useOurs bool) string {
			in.dir = dir
			if useOurs {
				got, err := in.serve(t)
				return fmt.Sprint(got, err == nil)
			}
			got, err := in.reference(t, ref)
			return fmt.Sprint(got, err == nil)
		}
		a, b := run(ours, true), run(theirs, false)
		c, d := run(both, step%2 == 0), run(htob, step%2 == 1)
		if a != b || a != c || a != d {
			t.Fatalf("%d: %s %s %s: ours %s, reference %s, in turns %s and %s", step, verb, id, args, a, b, c, d)
		}
		want := strings.Join(store(t, theirs), "\n")
		for name, dir := range map[string]string{"ours": ours, "in turns": both, "in turns, theirs first": htob} {
			if got := strings.Join(store(t, dir), "\n"); got != want {
				t.Fatalf("%d: %s %s: %s:\n%s\nreference:\n%s", step, verb, id, name, got, want)
			}
		}
	}
	for i := range 6 { // uses up the six addresses of the second set
		do(netconf.Add, fmt.Sprint("c", i), "")
	}
	do(netconf.Add, "c6", "")
	do(netconf.Add, "c2", "") // again
	do(netconf.Check, "c2", "")
	do(netconf.Del, "c2", "")
	do(netconf.Check, "c2", "")
	do(netconf.Del, "c2", "")
	do(netconf.Del, "c4", "")
	do(netconf.Add, "n1", "")
	do(netconf.Del, "c0", "")
	do(netconf.Add, "n2", "IP=10.0.0.6")
	do(netconf.Del, "n1", "")
	do(netconf.Add, "n3", "IP=10.0.1.8")
	do(netconf.Del, "c3", "")
	do(netconf.Add, "n4", "")
	for i := range 30 { // around the ends of both
		do(netconf.Del, fmt.Sprint("n", i+3), "")
		do(netconf.Add, fmt.Sprint("n", i+4), "")
	}
}

// A result has the routes as the configuration has them, also a destination with a host part.
func TestRoutesAsTheReferencePlugin(t *testing.T) {
	t.Parallel()
	ref := skeltest.Binary(program(t))
	in := call{verb: netconf.Add, dir: t.TempDir(), config: config(`"subnet":"10.0.0.0/24","routes":[{"dst":"10.8.3.1/16","gw":"10.0.0.9"},{"dst":"fd00:8::7/64"},{"dst":"10.9.0.1/32"}]`)}
	ours, err := plugin().Call(t.Context(), in.request(t))
	if err != nil {
		t.Fatal(err)
	}
	in.id = "c2"
	req := in.request(t)
	theirs := skeltest.Call{Command: netconf.Add, ContainerID: "c2", Netns: req.Netns, IfName: req.IfName, Path: "/none", Config: string(req.Config)}.Run(t.Context(), t, ref).OK(t)
	if len(ours.Routes) != 3 || !reflect.DeepEqual(ours.Routes, theirs.Result.Routes) {
		t.Errorf("routes %v: expected %v", ours.Routes, theirs.Result.Routes)
	}
}

// IPv4 addresses that are written as IPv6 were refused, and the reference plugin takes them for what they are.
func TestMappedAddressesAsTheReferencePlugin(t *testing.T) {
	t.Parallel()
	ref := program(t)
	for _, more := range []string{"", `},"runtimeConfig":{"ips":["::ffff:10.0.0.20"]`} {
		in := call{verb: netconf.Add, dir: t.TempDir(), config: config(`"subnet":"10.0.0.0/24","rangeStart":"::ffff:10.0.0.9","rangeEnd":"::ffff:10.0.0.30","gateway":"::ffff:10.0.0.10"` + more)}
		ours, err := in.serve(t)
		left := store(t, in.dir)
		in.dir = t.TempDir()
		theirs, refErr := in.reference(t, ref)
		if err != nil || refErr != nil || !slices.Equal(ours, theirs) || !slices.Equal(left, store(t, in.dir)) {
			t.Errorf("%s: %v, %v: %v, %q: expected %v, %q", more, err, refErr, ours, left, theirs, store(t, in.dir))
		}
	}
}

// Many processes of ours and of the reference plugin at once: nothing twice, nothing lost, none fails.
func TestAllAtOnce(t *testing.T) {
	t.Parallel()
	ref := program(t)
	in := call{dir: t.TempDir(), config: config(`"subnet":"10.0.0.0/24"`)}
	var mu sync.Mutex
	seen := map[string]string{}
	all := func(n int, f func(c call, ours bool)) {
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				c := in
				c.id = fmt.Sprint("c", i)
				f(c, i%2 == 0)
			})
		}
		wg.Wait()
	}
	run := func(c call, ours bool) []string {
		got, err := c.reference, error(nil)
		var out []string
		if ours {
			out, err = c.serve(t)
		} else {
			out, err = got(t, ref)
		}
		if err != nil {
			t.Errorf("%s %s: %v", c.verb, c.id, err)
		}
		return out
	}
	all(200, func(c call, ours bool) {
		c.verb = netconf.Add
		got := fmt.Sprint(run(c, ours))
		mu.Lock()
		defer mu.Unlock()
		if other, twice := seen[got]; twice {
			t.Errorf("%s for %s and %s", got, other, c.id)
		}
		seen[got] = c.id
	})
	if n := len(store(t, in.dir)); n != 200 {
		t.Errorf("%d leases", n)
	}
	all(200, func(c call, ours bool) { // those of the other one, and some that are none
		c.verb = netconf.Del
		run(c, !ours)
		c.ifname = "none"
		run(c, ours)
	})
	has(t, in.dir)
}
