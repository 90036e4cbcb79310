package delegate

import (
	"context"
	"maps"

	"github.com/cnikit/cnikit/netconf"
)

// Registry holds the plugins that are Go values of this process, by type: what [InProcess].Do is, usually the
// Do of a skel.Plugin. A plugin that is not in it is a program of CNI_PATH, as all are where it is nil. A plugin
// answers the same either way, but a Go value is called without a process, which is half of an ADD's time.
//
// It is a map of the caller's own, not to be changed while calls run.
type Registry map[string]func(ctx context.Context, req *netconf.Request) error

// Plugin returns the plugin of a type: the Go value, or else [Exec]. A type that cannot be one (see [CheckType])
// is told by the call.
func (r Registry) Plugin(name string) Plugin { return r.plugin(name) }

func (r Registry) plugin(name string) caller {
	if do := r[name]; do != nil {
		return InProcess{Type: name, Do: do}
	}
	return Exec{Type: name}
}

// Only returns a registry with the given types alone; those that are not in this one are passed over.
func (r Registry) Only(types ...string) Registry {
	out := Registry{}
	for _, name := range types {
		if do := r[name]; do != nil {
			out[name] = do
		}
	}
	return out
}

// Without returns a registry that lacks the given types: they are programs.
func (r Registry) Without(types ...string) Registry {
	out := maps.Clone(r)
	for _, name := range types {
		delete(out, name)
	}
	return out
}
