package netconf

import (
	"encoding/json"
	"fmt"
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
// skel's Recorder writes files; what it keeps does not outlive a reboot, as the attachment does not.
type Recorder interface {
	Save(key string, data []byte) error // replaces what was there, atomically
	Load(key string) ([]byte, error)    // nil, nil when there is nothing
	Forget(key string) error            // no error when there is nothing
}

// Request is one call of a plugin. It is the one parameter that every step takes. Steps of one
// call run one after the other and may read all of it; they write to Result (and, in a chained
// plugin on ADD, to Prev).
type Request struct {
	Command     Command
	ContainerID string
	Netns       string           // path as passed; empty on DEL when there is none (or it is our own)
	IfName      string           // the name of the interface inside the container
	Args        Args             // CNI_ARGS
	Path        []string         // CNI_PATH, the folders in which delegates are looked up
	Environ     []string         // the environment, "K=V", that delegates inherit; skel sets it. CNI_* in it is replaced
	Stderr      io.Writer        // where the stderr of delegates goes, one write at a time; skel sets it. nil: the process's own
	Network     Network          // the keys that the specification defines, typed
	Config      json.RawMessage  // the configuration as received, byte for byte
	Prev        *types100.Result // prevResult, a private deep copy; nil if absent. A chained step may change it on ADD
	Result      *types100.Result // ADD: what this plugin adds, empty at first; printed as Prev with Result appended
	State       Recorder         // bytes kept for this attachment between ADD and DEL; never nil under skel
	Strict      bool             // an unknown key of the configuration is an error with code 2, not a warning
	// Warn reports what is wrong but no reason to fail; args are key-value pairs as in log/slog. skel
	// writes it to the log; rooms below do not log. Parse sets one that drops everything.
	Warn func(msg string, args ...any)

	prevRaw  json.RawMessage // for the fields of Prev that types100 does not know
	rejected []error         // see Reject
	warnings []error         // see Warnings
	local    *locals
}

// Lenient tells whether the call must go on when its configuration does not decode: DEL and GC.
func (r *Request) Lenient() bool { return r.Command == Del || r.Command == GC }

// Reject notes that the call cannot be served, for code that describes an attachment and has no
// error to return (Plugin.Steps is pure). skel returns what was noted before any work is done, on ADD,
// CHECK and STATUS; on DEL and GC it only warns.
func (r *Request) Reject(err error) {
	if err != nil {
		r.rejected = append(r.rejected, err)
	}
}

// Rejected returns what Reject noted, joined; nil if nothing.
func (r *Request) Rejected() error { return Join(r.rejected...) }

// MAC returns the hardware address asked for. The highest of these that is set counts:
// runtimeConfig.mac, args.cni.mac, MAC in CNI_ARGS, the plugin's own key, which is the argument.
// It is nil if none is set. A text that is no unicast address is noted with Reject.
func (r *Request) MAC(fromConfig MAC) MAC {
	var s string
	source := ""
	if v := r.Args["MAC"]; v != "" {
		s, source = v, "CNI_ARGS"
	}
	var cni map[string]json.RawMessage
	if args := r.Network.Args["cni"]; len(args) > 0 && json.Unmarshal(args, &cni) != nil {
		cni = nil // args may be ignored, and what is no object has no mac
	}
	if v := r.text("args.cni.mac", cni["mac"]); v != "" {
		s, source = v, "args.cni.mac"
	}
	if v := r.text("runtimeConfig.mac", r.Network.RuntimeConfig["mac"]); v != "" {
		s, source = v, "runtimeConfig.mac"
	}
	if source == "" {
		return fromConfig
	}
	var m MAC
	if err := m.UnmarshalText([]byte(s)); err != nil {
		if source == "CNI_ARGS" {
			r.Reject(&Error{Op: "environment", Path: "CNI_ARGS", Code: CodeInvalidEnvironment, Err: fmt.Errorf("MAC: %w", err)})
		} else {
			r.Reject(r.at(CodeDecodingFailure, source, err)) // as for the plugin's own key
		}
		return fromConfig
	}
	return m
}

// text returns a string; a value that is there and is not a string is noted with Reject.
func (r *Request) text(path string, value json.RawMessage) string {
	var s string
	if len(value) > 0 && json.Unmarshal(value, &s) != nil {
		r.Reject(r.at(CodeDecodingFailure, path, wrongType("a string", value)))
	}
	return s
}

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
// name. Prev is nil and Result empty; values kept with Local are shared.
func (r *Request) For(network Network, ifname string) *Request {
	d := *r
	d.Network, d.Config = network, network.Bytes()
	d.Prev, d.prevRaw, d.Result = nil, nil, &types100.Result{}
	d.State, d.rejected, d.warnings = nil, nil, nil
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
		{"CNI_IFNAME=", r.IfName}, {"CNI_ARGS=", r.Args.String()}, {"CNI_PATH=", strings.Join(r.Path, pathListSeparator)},
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
	slices.SortFunc(keys, func(x, y string) int {
		switch {
		case x == y:
			return 0
		case x == "IgnoreUnknown":
			return -1
		case y == "IgnoreUnknown":
			return 1
		}
		return strings.Compare(x, y)
	})
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
