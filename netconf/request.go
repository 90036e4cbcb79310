package netconf

import (
	"encoding/json"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
)

// Command is a verb of the specification: the value of CNI_COMMAND.
type Command string

// The verbs (SPEC, section 2).
const (
	Add     Command = "ADD"
	Check   Command = "CHECK" // since 0.4.0
	Del     Command = "DEL"
	GC      Command = "GC"     // since 1.1.0
	Status  Command = "STATUS" // since 1.1.0
	Version Command = "VERSION"
)

// Since is the first version of the specification that has the verb: "0.1.0" for the oldest.
func (c Command) Since() string {
	switch c {
	case Check:
		return "0.4.0"
	case GC, Status:
		return "1.1.0"
	}
	return "0.1.0"
}

func (c Command) known() bool {
	switch c {
	case Add, Check, Del, GC, Status, Version:
		return true
	}
	return false
}

// Recorder keeps bytes for one attachment between its ADD and its DEL, for what the kernel cannot
// remember: where a moved device came from, a value that DEL must restore. Keys are the author's.
// skel's Recorder writes files; what it keeps does not outlive a reboot, as the attachment does not. A DEL whose
// configuration no longer names the network gets what was kept for its container and interface, and the name with it.
// It asks the fault hook by itself: a step calls Before for its own change, and not for Save and Forget.
type Recorder interface {
	Save(key string, data []byte) error // replaces what was there, atomically
	Load(key string) ([]byte, error)    // nil, nil when there is nothing
	Forget(key string) error            // no error when there is nothing
}

// StaleRecorder is what Request.State is on GC under skel: it lists what was kept for the attachments of the network that
// live no more.
//
//	if stale, ok := req.State.(netconf.StaleRecorder); ok {
//		err = stale.Each(func(containerID, ifname string, kept netconf.Recorder) error { ... })
//	}
//
// When the GC of all steps has succeeded, skel drops what they were given.
type StaleRecorder interface {
	Recorder
	// Each calls f for each of them, goes on after an error and joins the errors.
	Each(f func(containerID, ifname string, kept Recorder) error) error
}

// Request is one call of a plugin. It is the one parameter that every step takes. Steps of one
// call run one after the other and may read all of it; they write to Result (and, in a chained
// plugin on ADD, to Prev).
type Request struct {
	Command     Command
	ContainerID string
	Netns       string           // path as passed; empty on DEL when there is none (or it is our own)
	IfName      string           // the name of the interface inside the container
	Args        Args             // CNI_ARGS; see ArgsText
	Path        []string         // CNI_PATH, the folders in which delegates are looked up
	Environ     []string         // the environment, "K=V", that delegates inherit; skel sets it. CNI_* in it is replaced
	Stderr      io.Writer        // where the stderr of delegates goes, one write at a time; skel sets it. nil: the process's own
	Network     Network          // the keys that the specification defines, typed
	Config      json.RawMessage  // the configuration as received, byte for byte
	Prev        *types100.Result // prevResult, a private deep copy; nil if absent. A chained step may change it on ADD
	Result      *types100.Result // ADD: what this plugin adds, empty at first; printed as Prev with Result appended
	State       Recorder         // bytes kept for this attachment between ADD and DEL; never nil under skel. On GC a StaleRecorder
	Strict      bool             // an unknown key of the configuration is an error with code 2, not a warning
	// Section is the key of the object that is the plugin's own: "ipam" in an IPAM plugin, which gets the whole
	// configuration of its caller. Decode then looks for unknown keys in that object alone. Empty, or where there is
	// no such object: in all of it.
	Section string
	// Warn reports what is wrong but no reason to fail; args are key-value pairs as in log/slog. skel
	// writes it to the log; rooms below do not log. Parse sets one that drops everything.
	Warn func(msg string, args ...any)

	argsText string          // what Args was read from; see SetArgs
	runtime  *RuntimeConfig  // see Runtime; nil until it is asked for
	prevRaw  json.RawMessage // for the fields of Prev that types100 does not know

	resultRaw []json.RawMessage // for those of Result, see AppendResult
	rejected  []error           // see Reject
	warnings  []error           // see Warnings
	local     *locals
}

// Lenient tells whether the call must go on when its configuration does not decode: DEL and GC.
func (r *Request) Lenient() bool { return r.Command == Del || r.Command == GC }

// Reject notes that the call cannot be served, for code that describes an attachment and has no
// error to return (Plugin.Steps is pure). skel returns what was noted before any work is done, on ADD,
// CHECK and STATUS; on DEL and GC it only warns. What was noted already, in the same words, is not noted
// again: several steps may ask for the same thing.
func (r *Request) Reject(err error) {
	if err == nil || slices.ContainsFunc(r.rejected, func(e error) bool { return e.Error() == err.Error() }) {
		return
	}
	r.rejected = append(r.rejected, err)
}

// Rejected returns what Reject noted, joined; nil if nothing.
func (r *Request) Rejected() error { return Join(r.rejected...) }

// Invalid makes an error about a key of the configuration, with code 7, its line and column; format
// is as for fmt.Errorf.
func (r *Request) Invalid(path, format string, args ...any) error {
	return r.at(CodeInvalidNetworkConfig, path, Errorf(0, format, args...))
}

func (r *Request) at(code uint, path string, err error) error {
	return errorAt("configuration", r.Config, code, path, err)
}

// For returns the request that a delegate gets: the same container, namespace, arguments, path and
// environment, with another network (its bytes become Config) and, if not empty, another interface
// name. Prev is nil and Result empty; how strict a delegate is, and what section of the configuration is its own, is its own
// affair; values kept with Local are shared.
func (r *Request) For(network Network, ifname string) *Request {
	d := *r
	d.Network, d.Config = network, network.Bytes()
	d.Strict, d.Section = false, ""
	d.Prev, d.prevRaw, d.Result, d.resultRaw = nil, nil, &types100.Result{}, nil
	d.State, d.rejected, d.warnings, d.runtime = nil, nil, nil, nil
	d.local = r.locals()
	if ifname != "" {
		d.IfName = ifname
	}
	return &d
}

// As returns a copy of the request under another verb, as rollback needs it: a step that is
// rolled back sees DEL. Values kept with Local, Result and Prev are shared.
func (r *Request) As(c Command) *Request {
	d := *r
	d.Command = c
	d.rejected = slices.Clip(d.rejected) // so that neither writes into the other's
	d.local = r.locals()
	return &d
}

// Env returns the environment of a delegate: Environ, with the six variables of the specification taken
// from this request; those that are empty here are left out.
func (r *Request) Env() []string {
	env := slices.Clone(r.Environ)
	for _, kv := range [][2]string{
		{"CNI_COMMAND=", string(r.Command)}, {"CNI_CONTAINERID=", r.ContainerID}, {"CNI_NETNS=", r.Netns},
		{"CNI_IFNAME=", r.IfName}, {"CNI_ARGS=", r.ArgsText()}, {"CNI_PATH=", strings.Join(r.Path, pathListSeparator)},
	} {
		env = slices.DeleteFunc(env, func(have string) bool { return strings.HasPrefix(have, kv[0]) })
		if kv[1] != "" {
			env = append(env, kv[0]+kv[1])
		}
	}
	return env
}

// String writes the arguments as CNI_ARGS, the keys in order, IgnoreUnknown first: a delegate made
// with upstream's library fails at the first unknown key unless it has seen it.
func (a Args) String() string {
	keys := make([]string, 0, len(a))
	for k := range a {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	if i := slices.Index(keys, "IgnoreUnknown"); i > 0 {
		keys = slices.Insert(slices.Delete(keys, i, i+1), 0, "IgnoreUnknown")
	}
	for i, k := range keys {
		keys[i] = k + "=" + a[k]
	}
	return strings.Join(keys, ";")
}

// AddInterface appends an interface to Result and returns its index there.
func (r *Request) AddInterface(i *types100.Interface) (index int) {
	r.result().Interfaces = append(r.Result.Interfaces, i)
	return len(r.Result.Interfaces) - 1
}

// AddIP appends an address to Result. index is what AddInterface returned; below 0 the address has
// no interface (an IPAM plugin's answer). gateway may be nil.
func (r *Request) AddIP(index int, address net.IPNet, gateway net.IP) {
	ip := &types100.IPConfig{Address: address, Gateway: gateway}
	if index >= 0 {
		ip.Interface = &index
	}
	r.result().IPs = append(r.Result.IPs, ip)
}

// AddRoute appends a route to Result.
func (r *Request) AddRoute(route *types.Route) { r.result().Routes = append(r.Result.Routes, route) }

// result is Result; a request that a daemon made by hand may have none yet.
func (r *Request) result() *types100.Result {
	if r.Result == nil {
		r.Result = &types100.Result{}
	}
	return r.Result
}

// Attached returns the index of the attachment's own interface in a result: the one that has the
// given name and a sandbox. It is -1 if there is none, or no result.
func Attached(result *types100.Result, ifname string) int {
	if result == nil {
		return -1
	}
	return slices.IndexFunc(result.Interfaces, func(i *types100.Interface) bool {
		return i != nil && i.Name == ifname && i.Sandbox != ""
	})
}
