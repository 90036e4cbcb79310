package netconf

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"strings"
)

// A hardware address and addresses can be asked for in four places. There is one order for both, in MAC
// and IPs, from the highest: runtimeConfig, args.cni, CNI_ARGS, the plugin's own key. The highest that is set
// replaces the others as a whole, and they are not looked at.

// CNIArgs is args.cni: what a runtime tells unasked (CONVENTIONS.md, "args in network config").
type CNIArgs struct {
	IPs    []IP    // "ips": see Request.IPs
	MAC    MAC     // "mac": see Request.MAC; not in CONVENTIONS.md, but served by the reference plugins
	Labels []Label // "labels"
	// Other holds the keys that are not above, as received; nil if there are none.
	Other map[string]json.RawMessage
}

// Label is a label of the container.
type Label struct {
	Key   string `json:"key"`
	Value string `json:"value"`
}

// Pod is the pod that an attachment is for, as Kubernetes' runtimes tell it in CNI_ARGS. The texts are not
// checked.
type Pod struct {
	Namespace string // K8S_POD_NAMESPACE
	Name      string // K8S_POD_NAME
	UID       string // K8S_POD_UID; older runtimes do not send it
	SandboxID string // K8S_POD_INFRA_CONTAINER_ID
}

// Pod returns the pod of the attachment; ok tells whether it has a namespace and a name, that is whether
// the call comes from a Kubernetes node.
func (r *Request) Pod() (pod Pod, ok bool) {
	pod = Pod{r.Args["K8S_POD_NAMESPACE"], r.Args["K8S_POD_NAME"], r.Args["K8S_POD_UID"], r.Args["K8S_POD_INFRA_CONTAINER_ID"]}
	return pod, pod.Namespace != "" && pod.Name != ""
}

// CNIArgs returns args.cni, typed. The args are optional and may be ignored: an args.cni that is no object
// is none. A key above that is malformed is noted with Reject, since the caller asks for it, and
// has its zero value. Who does not ask is not bothered.
func (r *Request) CNIArgs() CNIArgs {
	var c CNIArgs
	rest := r.cniArgs()
	if _, ok := r.part("args.cni.ips", rest["ips"], &c.IPs); ok {
		c.IPs = r.checkIPs("args.cni.ips", c.IPs)
	}
	r.part("args.cni.mac", rest["mac"], &c.MAC)
	r.part("args.cni.labels", rest["labels"], &c.Labels)
	for _, known := range []string{"ips", "mac", "labels"} {
		delete(rest, known)
	}
	if len(rest) > 0 {
		c.Other = rest
	}
	return c
}

// cniArgs is args.cni by key; nil if it is not an object.
func (r *Request) cniArgs() map[string]json.RawMessage {
	var cni map[string]json.RawMessage
	if args := r.Network.Args["cni"]; len(args) > 0 && json.Unmarshal(args, &cni) != nil {
		return nil
	}
	return cni
}

// DefaultMetric returns args.cni.defaultMetric, which a caller of several plugins for one container sets to say in which
// order their default routes come, whatever the order in which they run; 0 if it is not set. The lower one is preferred.
// What is no number from 0 to 4294967295 is noted with Reject. It is a key of this SDK: a plugin that does not
// know it ignores it, as all of args.
func (r *Request) DefaultMetric() int {
	var metric uint32
	r.part("args.cni.defaultMetric", r.cniArgs()["defaultMetric"], &metric)
	return int(metric)
}

// MAC returns the hardware address asked for. The highest of these that is set counts:
// runtimeConfig.mac, args.cni.mac, MAC in CNI_ARGS, the plugin's own key, which is the argument.
// It is nil if none is set. What is no unicast address is noted with Reject, and the argument returned.
func (r *Request) MAC(fromConfig MAC) MAC {
	var m MAC
	switch {
	case r.asked("runtimeConfig.mac", r.Network.RuntimeConfig["mac"], &m):
	case r.asked("args.cni.mac", r.cniArgs()["mac"], &m):
	case r.Args["MAC"] != "":
		if err := m.UnmarshalText([]byte(r.Args["MAC"])); err != nil {
			r.rejectArg("MAC", err)
		}
	}
	if m == nil {
		return fromConfig
	}
	return m
}

// IPs returns the addresses asked for. The highest of these that is set counts, as a whole:
// runtimeConfig.ips, args.cni.ips, IP in CNI_ARGS (one, or several with ',' between), the plugin's
// own key, which is the argument. An empty list is not set. The reference host-local joins the lists where
// the reference static replaces them; here it is always replaced.
//
// An address may be without its prefix length; whether that is enough is up to the caller. What is no
// address, unspecified, multicast, or asked for twice with different lengths is noted with
// Reject, and the argument returned; the same address twice is taken once.
func (r *Request) IPs(fromConfig ...IP) []IP {
	var ips []IP
	switch {
	case r.asked("runtimeConfig.ips", r.Network.RuntimeConfig["ips"], &ips):
		ips = r.checkIPs("runtimeConfig.ips", ips)
	case r.asked("args.cni.ips", r.cniArgs()["ips"], &ips):
		ips = r.checkIPs("args.cni.ips", ips)
	case r.Args["IP"] != "":
		ips = r.argIPs(r.Args["IP"])
	}
	if len(ips) == 0 {
		return fromConfig
	}
	return ips
}

// asked decodes a value as part does. It is true if the value counts: if it is wrong, too, so that no
// lower place is taken for it. What is empty does not count.
func (r *Request) asked(path string, value json.RawMessage, into any) bool {
	found, ok := r.part(path, value, into)
	return found && (!ok || pointer(into).Len() > 0)
}

// argIPs reads IP of CNI_ARGS.
func (r *Request) argIPs(text string) []IP {
	var ips []IP
	for item := range strings.SplitSeq(text, ",") {
		var ip IP
		if err := ip.UnmarshalText([]byte(strings.TrimSpace(item))); err != nil {
			r.rejectArg("IP", err)
			return nil
		}
		ips = append(ips, ip)
	}
	ips, i, err := distinct(ips)
	if err != nil {
		r.rejectArg("IP", fmt.Errorf("address %d: %w", i+1, err))
	}
	return ips
}

// checkIPs is distinct for a list at a path of the configuration.
func (r *Request) checkIPs(path string, ips []IP) []IP {
	out, i, err := distinct(ips)
	if err != nil {
		r.Reject(r.Invalid(fmt.Sprintf("%s[%d]", path, i), "%w", err))
	}
	return out
}

// distinct returns the addresses without repetition. With an error, about the one at an index, it is nil.
func distinct(ips []IP) ([]IP, int, error) {
	have := make(map[netip.Addr]IP, len(ips))
	var out []IP
	for i, ip := range ips {
		first, again := have[ip.Addr]
		switch {
		case !ip.Addr.IsValid():
			return nil, i, errors.New("missing: expected " + ip.Expects())
		case ip.Addr.IsUnspecified() || ip.Addr.IsMulticast():
			return nil, i, fmt.Errorf("%s cannot be the address of an interface", ip)
		case !again:
			have[ip.Addr] = ip
			out = append(out, ip)
		case first != ip:
			return nil, i, fmt.Errorf("%s is asked for already, as %s", ip, first)
		}
	}
	return out, 0, nil
}

func (r *Request) rejectArg(key string, err error) {
	r.Reject(&Error{Op: "environment", Path: "CNI_ARGS", Code: CodeInvalidEnvironment, Err: fmt.Errorf("%s: %w", key, err)})
}

// within gives errors about parts of the value at a path their place in the whole configuration.
func (r *Request) within(path string, errs []error) error {
	var out []error
	for _, err := range errs {
		var e *Error
		code, at := Code(err), path
		if errors.As(err, &e) {
			if err = e.Err; strings.HasPrefix(e.Path, "[") {
				at += e.Path
			} else {
				at = join(path, e.Path)
			}
		}
		out = append(out, r.at(code, at, err))
	}
	return Join(out...)
}

// pointer is what a pointer points to.
func pointer(into any) reflect.Value { return reflect.ValueOf(into).Elem() }
