package skeltest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/containernetworking/cni/pkg/version"
	"golang.org/x/sys/unix"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

// prepare reads the configuration, asks for the versions and makes the host ready.
func (b *Bench) prepare() {
	if b.Parent == "" {
		b.Parent = "p0"
	}
	if b.Limit == 0 {
		b.Limit = time.Minute
	}
	if b.Volatile == nil {
		b.Volatile = regexp.MustCompile(DefaultVolatile)
	}
	b.paths = slices.Clone(b.Path)
	if program, ok := b.Plugin.(Binary); ok {
		b.paths = append(b.paths, filepath.Dir(string(program)))
	}
	if len(b.paths) == 0 {
		b.paths = []string{b.TempDir()}
	}
	if b.Stateless && b.Kind != skel.IPAM {
		b.Fatalf("Target.Stateless is for IPAM plugins, and the kind is %s", kindName(b.Kind))
	}
	b.Path = slices.Clone(b.paths) // what the plugin gets, for Setup
	b.readConfig()
	if b.Setup != nil {
		b.Setup(b)
	}
	b.haveSetUp()
	b.parent = b.hasParent()
	a := b.Run(Call{Command: netconf.Version, Config: `{"cniVersion":"1.0.0"}`})
	var info struct{ SupportedVersions []string }
	if json.Unmarshal([]byte(a.Stdout), &info) == nil {
		b.Versions = info.SupportedVersions
	}
	known := version.All.SupportedVersions()
	for _, v := range slices.Backward(known) {
		if slices.Contains(b.Versions, v) {
			b.Base = b.Set(b.Base, "cniVersion", `"`+v+`"`)
			break
		}
	}
}

// readConfig takes a list of plugins apart, as a runtime does.
func (b *Bench) readConfig() {
	var list struct {
		CNIVersion, Name json.RawMessage
		Plugins          []json.RawMessage
	}
	if err := json.Unmarshal([]byte(b.Config), &list); err != nil {
		b.Fatalf("the configuration: %v", err)
	}
	if len(list.Plugins) == 0 {
		b.Base = b.Config
		return
	}
	for _, plugin := range list.Plugins {
		b.before = append(b.before, b.Set(b.Set(string(plugin), "name", string(list.Name)), "cniVersion", string(list.CNIVersion)))
	}
	b.Base = b.before[len(b.before)-1]
	b.before = b.before[:len(b.before)-1]
}

// Set returns the configuration with a key of another value, which is JSON.
func (b *Bench) Set(config, key, value string) string {
	b.Helper()
	patched, err := netconf.Patch([]byte(config), key, json.RawMessage(value))
	if err != nil {
		b.Fatalf("set %q in the configuration: %v", key, err)
	}
	return string(patched)
}

// Get returns the value of a key of the configuration, as JSON; "" if it is not there.
func (b *Bench) Get(config, key string) string {
	var object map[string]json.RawMessage
	if err := json.Unmarshal([]byte(config), &object); err != nil {
		b.Fatalf("the configuration: %v", err)
	}
	return string(object[key])
}

// Without returns the configuration without a key.
func (b *Bench) Without(config, key string) string {
	var object map[string]json.RawMessage
	if err := json.Unmarshal([]byte(config), &object); err != nil {
		b.Fatalf("the configuration: %v", err)
	}
	delete(object, key)
	out, err := json.Marshal(object)
	if err != nil {
		b.Fatal(err)
	}
	return string(out)
}

// Converted returns a result in another version.
func (b *Bench) Converted(result, version string) string {
	b.Helper()
	r, err := netconf.ParseResult([]byte(result), "")
	if err != nil {
		b.Fatal(err)
	}
	var out bytes.Buffer
	if err := netconf.EncodeResult(&out, nil, r, version); err != nil {
		b.Fatalf("convert the prevResult to version %s: %v", version, err)
	}
	return out.String()
}

// NeedVersion ends the check, as not applicable, if the plugin does not announce the version, in which a verb came.
func (b *Bench) NeedVersion(verb netconf.Command) {
	v := b.Get(b.Base, "cniVersion")
	if !(netconf.Network{CNIVersion: strings.Trim(v, `"`)}).Is(verb.Since()) {
		b.Skipf("the plugin does not announce version %s, in which %s came: %v", verb.Since(), verb, b.Versions)
	}
}

// Run makes a call. It does not hold the answer against the protocol, which requirements of their own do; a call that
// does not end within Target.Limit fails the requirement.
func (b *Bench) Run(c Call) Answer {
	b.Helper()
	a := b.RunWithin(b.Context(), c)
	if a.Exit < 0 {
		b.Fatalf("%s: the program ended by a signal, or could not be started\nstderr: %s", c.Command, a.Stderr)
	}
	return a
}

// RunWithin is Run with a context, whose end is a SIGTERM; it leaves the exit status to the caller.
func (b *Bench) RunWithin(ctx context.Context, c Call) Answer {
	b.Helper()
	a := b.limited(ctx, c)
	b.inTime(c, a)
	return a
}

// limited makes a call whose time is limited, in any goroutine: only inTime, in that of the check, fails the requirement.
func (b *Bench) limited(ctx context.Context, c Call) Answer {
	ctx, cancel := context.WithTimeout(ctx, b.Limit)
	defer cancel()
	a := c.run(ctx, b, b.Plugin)
	a.late = ctx.Err() == context.DeadlineExceeded
	return a
}

// inTime fails the requirement if the call did not end in time, or did not end to talk.
func (b *Bench) inTime(c Call, a Answer) {
	b.Helper()
	if a.protocol == errFlood {
		b.Fatalf("%s: %v\nstdout: %.200q\nstderr: %.200q", c.Command, a.protocol, a.Stdout, a.Stderr)
	}
	if a.late {
		b.Fatalf("%s did not end within %v\nstdout: %s\nstderr: %s", c.Command, b.Limit, a.Stdout, a.Stderr)
	}
}

// Succeeds makes a call that must succeed.
func (b *Bench) Succeeds(c Call) Answer {
	b.Helper()
	a := b.Run(c)
	if a.Exit != 0 {
		b.Fatalf("%s failed, exit status %d, code %d: %s %s%s\nstderr: %s", c.Command, a.Exit, a.Err.Code, a.Err.Msg, a.Err.Details, b.hint(c, a), a.Stderr)
	}
	if c.Command == netconf.Add && c.Stdout == nil && a.Result == nil {
		b.Fatalf("ADD succeeded without a result that can be read: %v\nstdout: %s", a.protocol, a.Stdout)
	}
	return a
}

// Fails makes a call that must fail, and say why in one error document.
func (b *Bench) Fails(c Call, why string) Answer {
	b.Helper()
	a := b.Run(c)
	if a.Exit == 0 {
		b.Fatalf("%s succeeded: %s", c.Command, why)
	}
	b.explained(a, string(c.Command))
	return a
}

// explained fails the requirement if a call that failed, as it must, has not said so in an error document.
func (b *Bench) explained(a Answer, what string) {
	b.Helper()
	if problem := errorDocument(a); problem != "" {
		b.Errorf("%s failed as it must, but without an error document: %s", what, problem)
	}
}

// Container is a container, and the ADD that attaches it.
type Container struct {
	*NS
	Add Call
}

// Del is the DEL of its attachment, without a prevResult.
func (c *Container) Del() Call {
	del := c.Add.With(netconf.Del)
	del.Prev = ""
	return del
}

// Alive tells whether the path of its namespace leads to one.
func (c *Container) Alive() bool {
	var fs unix.Statfs_t
	return unix.Statfs(c.Path, &fs) == nil && fs.Type == unix.NSFS_MAGIC
}

// Container makes a container with the interface eth0, and runs in it the plugins before the judged one, whose result
// its ADD has as prevResult.
func (b *Bench) Container() *Container {
	b.Helper()
	b.number++
	c := &Container{NS: NewNS(b)}
	// Duplicate address detection takes a second or two of each ADD that waits for it, and there are hundreds.
	if err := within(c.Path, func() error {
		return os.WriteFile("/proc/sys/net/ipv6/conf/default/dad_transmits", []byte("0"), 0)
	}); err != nil {
		b.Fatal(err)
	}
	c.Add = Call{
		Command: netconf.Add, ContainerID: fmt.Sprintf("conform-%d", b.number), Netns: c.Path, IfName: "eth0",
		Path: strings.Join(b.paths, string(os.PathListSeparator)), Env: []string{"PATH=" + os.Getenv("PATH")}, Config: b.Base,
	}
	for _, config := range b.before {
		call := c.Add
		call.Config = config
		var kind struct{ Type string }
		if err := json.Unmarshal([]byte(config), &kind); err != nil {
			b.Fatal(err)
		}
		program, err := find(b.paths, kind.Type)
		if err != nil {
			b.Fatal(err)
		}
		a := call.Run(b.Context(), b, program).OK(b)
		c.Add.Prev = a.Stdout
		for _, i := range a.Result.Interfaces {
			if i.Sandbox == "" {
				b.links = append(b.links, i.Name)
			}
		}
	}
	return c
}

func find(paths []string, name string) (Binary, error) {
	for _, dir := range paths {
		program := filepath.Join(dir, name)
		if st, err := os.Stat(program); err == nil && st.Mode().IsRegular() {
			return Binary(program), nil
		}
	}
	return "", fmt.Errorf("no program %q in %v", name, paths)
}

// Settle makes an attachment of another container and takes it away again: what is shared by all of a network's (a
// bridge, the folders of a store) comes with the first and stays. It returns how host and container look then. The
// other one has the same namespace; its id differs, since a store that forgets nothing gives the same container the
// same address again, and a leak would look like order.
func (b *Bench) Settle(c *Container) Snapshot {
	b.Helper()
	first := *c
	first.Add.ContainerID = "settle"
	b.Attach(&first)
	b.Succeeds(first.Del())
	return b.Look(c)
}

// Same fails the requirement if the host, the containers and the state are not as before. Without containers, whose
// end the kernel may be busy with, it looks for up to three seconds; for a chained plugin then only at what is left, since
// what the plugins before it had made goes with the namespace.
func (b *Bench) Same(before Snapshot, when string, containers ...*Container) {
	b.Helper()
	if len(containers) == 0 {
		b.sameSoon(before, when)
		return
	}
	b.same(before.Diff(b.Look(containers...)), when)
}

func (b *Bench) same(diff, when string) {
	b.Helper()
	if diff != "" {
		b.Errorf("%s: not as before (- gone, + left):\n%s", when, diff)
	}
}

// sameSoon is Same on a host where a container has lost its namespace, beside those that are given. A parent that the plugin had
// moved there has gone with it: the one that the host has is virtual, and the kernel gives back only hardware.
func (b *Bench) sameSoon(before Snapshot, when string, containers ...*Container) {
	b.Helper()
	b.same(settles(func() string {
		diff := before.Diff(b.Look(containers...))
		if b.Kind == skel.Chained || b.lostParent() {
			return added(diff)
		}
		return diff
	}), when)
}

// settles looks for a difference for up to three seconds: the kernel takes links away a moment after their namespace.
func settles(look func() (diff string)) (diff string) {
	for end := time.Now().Add(3 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		if diff = look(); diff == "" || time.Now().After(end) {
			return diff
		}
	}
}

// added are the lines of a difference about what was not there before.
func added(diff string) string {
	var out strings.Builder
	for line := range strings.Lines(diff) {
		if strings.HasPrefix(line, "+") {
			out.WriteString(line)
		}
	}
	return out.String()
}
