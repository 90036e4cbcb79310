package netconf

import (
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
)

// extras holds the members of a prevResult that types100 does not know, by what they belong to:
// for each key the objects with that key, in their order.
type extras map[string][][]extra

type extra struct {
	key   string
	value json.RawMessage
}

// The keys of the result itself and of its dns. Those of the others begin with a word, so none is like these.
const (
	resultKey = "result"
	dnsKey    = "dns"
)

func interfaceKey(name, sandbox string) string { return "interface " + name + " " + sandbox }
func ipKey(address *net.IPNet) string          { return "ip " + address.String() }
func routeKey(dst *net.IPNet, gw net.IP, table *int) string {
	if table == nil {
		table = new(int)
	}
	return fmt.Sprintf("route %s %s %d", dst, gw, *table)
}

// next takes the members of the next object with a key.
func (e extras) next(key string) []extra {
	objects := e[key]
	if len(objects) == 0 {
		return nil
	}
	e[key] = objects[1:]
	return objects[0]
}

// extrasOf collects the unknown members of a prevResult, which ParseResult has found good.
func extrasOf(raw json.RawMessage) extras {
	if len(raw) == 0 {
		return nil
	}
	e := extras{}
	e.keep(resultKey, raw, skipSpace(raw, 0), "cniVersion", "interfaces", "ips", "routes", "dns", "ip4", "ip6")
	for _, m := range read(members(raw, 0)) {
		switch strings.ToLower(m.key) {
		case "dns":
			e.keep(dnsKey, raw, m.start, "nameservers", "domain", "search", "options")
		case "interfaces":
			each(raw, m.start, func(off int, i struct{ Name, Sandbox string }) {
				e.keep(interfaceKey(i.Name, i.Sandbox), raw, off, "name", "mac", "mtu", "sandbox", "socketPath", "pciID")
			})
		case "ips":
			each(raw, m.start, func(off int, ip struct{ Address types.IPNet }) {
				e.keep(ipKey((*net.IPNet)(&ip.Address)), raw, off, "version", "interface", "address", "gateway")
			})
		case "routes":
			e.routes(raw, m.start)
		case "ip4", "ip6":
			e.old(raw, m.start)
		}
	}
	return e
}

// read is those of the members that ParseResult reads: of a key given twice the last, of one in several cases
// the exact one.
func read(ms []member) []member {
	last := map[string]int{}
	for i, m := range ms {
		name := strings.ToLower(m.key)
		if j, ok := last[name]; !ok || m.key == name || ms[j].key != name {
			last[name] = i
		}
	}
	var out []member
	for i, m := range ms {
		if last[strings.ToLower(m.key)] == i {
			out = append(out, m)
		}
	}
	return out
}

func (e extras) routes(raw json.RawMessage, off int) {
	each(raw, off, func(off int, r routeIn) {
		e.keep(routeKey((*net.IPNet)(&r.Dst), r.GW, r.Table), raw, off, "dst", "gw", "mtu", "advmss", "priority", "table", "scope")
	})
}

// old collects from the form of an address below 0.3.0.
func (e extras) old(raw json.RawMessage, off int) {
	ip, err := DecodeJSON[oldIP](raw[off:skipValue(raw, off)], nil)
	if err != nil {
		return // null
	}
	e.keep(ipKey((*net.IPNet)(&ip.IP)), raw, off, "ip", "gateway", "routes")
	for _, m := range read(members(raw, off)) {
		if strings.EqualFold(m.key, "routes") {
			e.routes(raw, m.start)
		}
	}
}

// each decodes the elements of the list at off. An element that does not decode has no members to keep.
func each[T any](raw json.RawMessage, off int, item func(off int, v T)) {
	for _, el := range elements(raw, off) {
		if v, err := DecodeJSON[T](el.value(raw), nil); err == nil {
			item(el.start, *v)
		}
	}
}

// keep notes the members of the object at off that are not among known. An object without any is
// noted too, so that the next one with its key finds its own.
func (e extras) keep(key string, raw json.RawMessage, off int, known ...string) {
	var more []extra
	for _, m := range members(raw, off) {
		if !slices.ContainsFunc(known, func(k string) bool { return strings.EqualFold(k, m.key) }) {
			more = append(more, extra{m.key, m.value(raw)})
		}
	}
	e[key] = append(e[key], more)
}
