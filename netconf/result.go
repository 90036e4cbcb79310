package netconf

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"
)

// ParseResult reads a result of any version of the specification: a prevResult, a delegate's answer.
// A result without cniVersion is taken by its shape: ip4 or ip6 make it 0.2.0, else it is of the
// version assumed, which is the configuration's. The result is the caller's own: nothing in it
// is shared. It is checked: no null in a list, every address there, every interface index inside the list.
// Errors carry code 6, an unknown version 1.
func ParseResult(data []byte, assumed string) (*types100.Result, error) {
	if err := checkJSON(data); err != nil {
		return nil, err
	}
	v := ""
	old, current := false, false
	for _, m := range members(data, 0) {
		switch m.key {
		case "cniVersion":
			if err := json.Unmarshal(m.value(data), &v); err != nil {
				return nil, &Error{Path: "cniVersion", Code: CodeDecodingFailure, Err: wrongType("a string", m.value(data))}
			}
		case "ip4", "ip6":
			old = true
		case "ips", "interfaces":
			current = true
		}
	}
	if v == "" {
		switch {
		case old:
			v = "0.2.0"
		case current && compareVersions(assumed, "0.3.0") < 0:
			v = "0.4.0"
		default:
			v = assumed
		}
		var err error
		if data, err = Patch(data, "cniVersion", json.RawMessage(fmt.Sprintf("%q", v))); err != nil {
			return nil, err
		}
	}
	if !slices.Contains(version.All.SupportedVersions(), v) {
		return nil, &Error{Path: "cniVersion", Code: CodeIncompatibleVersion,
			Err: fmt.Errorf("a result of version %q: expected one of %v", v, version.All.SupportedVersions())}
	}
	// A null in a list makes upstream's conversion dereference nil.
	if err := noNull(data); err != nil {
		return nil, err
	}
	parsed, err := version.NewResult(v, data)
	if err != nil {
		return nil, Errorf(CodeDecodingFailure, "%w", err)
	}
	result, err := types100.NewResultFromResult(parsed)
	if err != nil {
		return nil, Errorf(CodeDecodingFailure, "a result of version %s: %w", v, err)
	}
	return result, checkResult(result)
}

// noNull refuses a null where the specification has a list of objects, or in place of an old version's address.
func noNull(data []byte) error {
	for _, m := range members(data, 0) {
		switch m.key {
		case "interfaces", "ips", "routes":
			for i, e := range elements(data, m.start) {
				if data[e.start] != '{' {
					return &Error{Path: fmt.Sprintf("%s[%d]", m.key, i), Code: CodeDecodingFailure, Err: wrongType("an object", data[e.start:])}
				}
			}
		}
	}
	return nil
}

func checkResult(r *types100.Result) error {
	for i, ip := range r.IPs {
		path := fmt.Sprintf("ips[%d]", i)
		if ip.Address.IP == nil || ip.Address.Mask == nil {
			return &Error{Path: path + ".address", Code: CodeDecodingFailure, Err: errors.New("missing: expected ADDRESS/LENGTH")}
		}
		if n := ip.Interface; n != nil && (*n < 0 || *n >= len(r.Interfaces)) {
			return &Error{Path: path + ".interface", Code: CodeDecodingFailure,
				Err: fmt.Errorf("index %d of %d interfaces", *n, len(r.Interfaces))}
		}
	}
	for i, route := range r.Routes {
		if route.Dst.IP == nil {
			return &Error{Path: fmt.Sprintf("routes[%d].dst", i), Code: CodeDecodingFailure, Err: errors.New("missing: expected ADDRESS/LENGTH")}
		}
	}
	return nil
}

// EncodeResult writes the result of an ADD in the given version: prev with result appended, the
// indexes of result's addresses moved accordingly; DNS is result's if it has any. Both may be nil.
// What the version cannot hold is an error with code 7 before anything is written: no address, or
// two of one family, below 0.3.0. What it merely lacks a field for (mtu, socketPath, pciID below
// 1.0.0; interfaces below 0.3.0) is left out, as the specification's own conversion does.
func EncodeResult(w io.Writer, prev, result *types100.Result, version string) error {
	return encode(w, merge(prev, result), version, nil)
}

// EncodeResult writes Prev with Result appended in the version of the configuration, as the function
// EncodeResult does. Fields of the prevResult that types100 does not know (a vendor's, or a later
// version's) are kept: the chain's result must be equivalent to what this plugin got. They are matched by
// interface name and sandbox, by address, and by a route's dst, gw and table.
func (r *Request) EncodeResult(w io.Writer) error {
	return encode(w, merge(r.Prev, r.Result), r.Network.CNIVersion, r.prevRaw)
}

func merge(prev, result *types100.Result) *types100.Result {
	out := &types100.Result{}
	for _, r := range []*types100.Result{prev, result} {
		if r == nil {
			continue
		}
		offset := len(out.Interfaces)
		for _, ip := range r.IPs {
			ip = ip.Copy()
			if ip.Interface != nil {
				*ip.Interface += offset
			}
			out.IPs = append(out.IPs, ip)
		}
		out.Interfaces = append(out.Interfaces, r.Interfaces...)
		out.Routes = append(out.Routes, r.Routes...)
		if !r.DNS.IsEmpty() {
			out.DNS = r.DNS
		}
	}
	return out
}

// document is a result from 0.3.0 on. types100.Result marshals through a map, which costs ten times as much.
type document struct {
	CNIVersion string            `json:"cniVersion"`
	Interfaces []json.RawMessage `json:"interfaces,omitempty"`
	IPs        []json.RawMessage `json:"ips,omitempty"`
	Routes     []json.RawMessage `json:"routes,omitempty"`
	DNS        json.RawMessage   `json:"dns,omitempty"`
}

type ipDocument struct {
	Version   string `json:"version,omitempty"` // "4" or "6", from 0.3.0 to 0.4.0
	Interface *int   `json:"interface,omitempty"`
	Address   string `json:"address"`
	Gateway   net.IP `json:"gateway,omitempty"`
}

func encode(w io.Writer, r *types100.Result, version string, prevRaw json.RawMessage) error {
	var data []byte
	var err error
	if compareVersions(version, "0.3.0") < 0 {
		data, err = encodeOld(r, version)
	} else {
		data, err = encodeCurrent(r, version, extrasOf(prevRaw))
	}
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, data, "", "    "); err != nil {
		return Errorf(CodeInternal, "result: %w", err)
	}
	out.WriteByte('\n')
	if _, err = w.Write(out.Bytes()); err != nil {
		return Errorf(CodeIOFailure, "write the result: %w", err)
	}
	return nil
}

// encodeOld makes the ip4/ip6 form of 0.1.0 and 0.2.0, which has room for one address of each family.
func encodeOld(r *types100.Result, version string) ([]byte, error) {
	v4, v6 := 0, 0
	for _, ip := range r.IPs {
		if ip.Address.IP.To4() != nil {
			v4++
		} else {
			v6++
		}
	}
	if v4+v6 == 0 || v4 > 1 || v6 > 1 {
		return nil, &Error{Op: "result", Path: "cniVersion", Code: CodeInvalidNetworkConfig,
			Err: fmt.Errorf("%s has room for one address of each family and needs at least one; there are %d IPv4 and %d IPv6: use cniVersion 0.3.0 or later", version, v4, v6)}
	}
	r.CNIVersion = types100.ImplementedSpecVersion
	old, err := r.GetAsVersion(version)
	if err != nil {
		return nil, Errorf(CodeInvalidNetworkConfig, "result in version %s: %w", version, err)
	}
	return json.Marshal(old)
}

func encodeCurrent(r *types100.Result, version string, more extras) ([]byte, error) {
	doc := document{CNIVersion: version}
	before1 := compareVersions(version, "1.0.0") < 0
	for _, i := range r.Interfaces {
		if before1 {
			i = &types100.Interface{Name: i.Name, Mac: i.Mac, Sandbox: i.Sandbox}
		}
		doc.Interfaces = append(doc.Interfaces, more.marshal(i, interfaceKey(i)))
	}
	for _, ip := range r.IPs {
		out := ipDocument{Interface: ip.Interface, Address: ip.Address.String(), Gateway: ip.Gateway}
		if before1 {
			out.Version = "6"
			if ip.Address.IP.To4() != nil {
				out.Version = "4"
			}
		}
		doc.IPs = append(doc.IPs, more.marshal(out, ipKey(ip)))
	}
	for _, route := range r.Routes {
		doc.Routes = append(doc.Routes, more.marshal(route, routeKey(route)))
	}
	if !r.DNS.IsEmpty() || more["dns"] != nil {
		doc.DNS = more.marshal(r.DNS, "dns")
	}
	return more.marshal(doc, ""), nil
}

// extras holds, by what they belong to, the members of a prevResult that types100 does not know,
// each as `,"key":value`; "" is the result itself, "dns" its dns.
type extras map[string][]byte

func interfaceKey(i *types100.Interface) string { return "interface " + i.Name + " " + i.Sandbox }
func ipKey(ip *types100.IPConfig) string        { return "ip " + ip.Address.String() }
func routeKey(r *types.Route) string {
	table := 0
	if r.Table != nil {
		table = *r.Table
	}
	return fmt.Sprintf("route %s %s %d", r.Dst.String(), r.GW, table)
}

// marshal encodes v, an object, with the extras that belong to key. It cannot fail: v is made of
// strings, numbers and valid JSON.
func (e extras) marshal(v any, key string) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	more := e[key]
	if len(more) == 0 {
		return data
	}
	if len(data) == 2 { // "{}"
		more = more[1:]
	}
	return slices.Concat(data[:len(data)-1], more, []byte{'}'})
}

// extrasOf collects the unknown members of a prevResult.
func extrasOf(raw json.RawMessage) extras {
	if len(raw) == 0 {
		return nil
	}
	e := extras{}
	for _, m := range members(raw, 0) {
		switch m.key {
		case "cniVersion", "ip4", "ip6":
		case "dns":
			e.keep("dns", raw, m.start, "nameservers", "domain", "search", "options")
		case "interfaces":
			for _, el := range elements(raw, m.start) {
				i := &types100.Interface{}
				if json.Unmarshal(el.value(raw), i) == nil {
					e.keep(interfaceKey(i), raw, el.start, "name", "mac", "mtu", "sandbox", "socketPath", "pciID")
				}
			}
		case "ips":
			for _, el := range elements(raw, m.start) {
				ip := &types100.IPConfig{}
				if json.Unmarshal(el.value(raw), ip) == nil {
					e.keep(ipKey(ip), raw, el.start, "version", "interface", "address", "gateway")
				}
			}
		case "routes":
			for _, el := range elements(raw, m.start) {
				r := &types.Route{}
				if json.Unmarshal(el.value(raw), r) == nil {
					e.keep(routeKey(r), raw, el.start, "dst", "gw", "mtu", "advmss", "priority", "table", "scope")
				}
			}
		default:
			e.add("", m.key, m.value(raw))
		}
	}
	return e
}

// keep notes the members of the object at off that are not among known.
func (e extras) keep(key string, raw json.RawMessage, off int, known ...string) {
	for _, m := range members(raw, off) {
		if !slices.Contains(known, m.key) {
			e.add(key, m.key, m.value(raw))
		}
	}
}

func (e extras) add(key, name string, value json.RawMessage) {
	quoted, err := json.Marshal(name)
	if err != nil {
		panic(err) // a string always encodes
	}
	e[key] = slices.Concat(e[key], []byte{','}, quoted, []byte{':'}, value)
}
