package netconf

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"
)

// EncodeResult writes the result of an ADD in the given version: prev with result appended, the
// indexes of result's addresses moved accordingly; DNS is result's if it has any. Both may be nil.
// Nothing is written with an error: code 1 for a version that does not exist; 7 for what the version
// cannot hold: no address, or two of one family, below 0.3.0; 5 for the writer's own. What the
// version merely lacks a field for (mtu, socketPath, pciID below 1.0.0; interfaces and a route's
// attributes below 0.3.0) is left out, as the specification's own conversion does.
func EncodeResult(w io.Writer, prev, result *types100.Result, version string) error {
	return encode(w, prev, result, version, nil)
}

// EncodeResult writes Prev with Result appended in the version of the configuration, as the function
// EncodeResult does. Fields of the prevResult, and of what AppendResult took, that types100 does not know (a vendor's, or
// a later version's) are kept: the chain's result must be equivalent to what this plugin got. They are matched by
// interface name and sandbox, by address, and by a route's dst, gw and table; of several that match,
// in their order.
func (r *Request) EncodeResult(w io.Writer) error {
	raws := r.resultRaw
	if r.Prev != nil { // else a step has taken all of it away
		raws = slices.Concat([]json.RawMessage{r.prevRaw}, raws)
	}
	return encode(w, r.Prev, r.Result, r.Network.CNIVersion, raws)
}

func merge(prev, result *types100.Result) *types100.Result {
	out := &types100.Result{}
	for _, r := range []*types100.Result{prev, result} {
		if r == nil {
			continue
		}
		offset := len(out.Interfaces)
		for _, ip := range r.IPs {
			if ip = ip.Copy(); ip != nil && ip.Interface != nil {
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

func encode(w io.Writer, prev, result *types100.Result, v string, raws []json.RawMessage) error {
	if known := version.All.SupportedVersions(); !slices.Contains(known, v) {
		return &Error{Op: "result", Path: "cniVersion", Code: CodeIncompatibleVersion, Err: fmt.Errorf("version %.64q is unknown: expected one of %v", v, known)}
	}
	// Each by itself: in the whole, an index of result's below 0 would point at one of prev's interfaces.
	if errs := append(checkResult(prev, nil), checkResult(result, nil)...); len(errs) > 0 {
		return Errorf(CodeInternal, "the plugin's own %w", Join(errs...))
	}
	r := merge(prev, result)
	e := encoder{version: v, more: extrasOfAll(raws)}
	if compareVersions(v, "0.3.0") < 0 {
		if err := e.old(r); err != nil {
			return err
		}
	} else {
		e.current(r)
	}
	var out bytes.Buffer
	if err := json.Indent(&out, e.buf, "", "    "); err != nil {
		return Errorf(CodeInternal, "result: %w", err)
	}
	out.WriteByte('\n')
	if _, err := w.Write(out.Bytes()); err != nil {
		return Errorf(CodeIOFailure, "write the result: %w", err)
	}
	return nil
}

// encoder writes a result member by member. types100.Result marshals through a map, and a plugin's
// only result pays for all of encoding/json's tables: 0.1 ms of an ADD of 2.5 ms.
type encoder struct {
	buf     []byte
	version string
	more    extras
}

// old writes the form of 0.1.0 and 0.2.0, which has room for one address of each family.
func (e *encoder) old(r *types100.Result) error {
	var v4, v6 []*types100.IPConfig
	for _, ip := range r.IPs {
		if ip.Address.IP.To4() != nil {
			v4 = append(v4, ip)
		} else {
			v6 = append(v6, ip)
		}
	}
	if len(r.IPs) == 0 || len(v4) > 1 || len(v6) > 1 {
		return &Error{Op: "result", Path: "cniVersion", Code: CodeInvalidNetworkConfig,
			Err: fmt.Errorf("%s has room for one address of each family and needs at least one; there are %d IPv4 and %d IPv6: use cniVersion 0.3.0 or later", e.version, len(v4), len(v6))}
	}
	e.begin('{')
	e.text("cniVersion", e.version)
	for _, ip := range slices.Concat(v4, v6) {
		family := "6"
		if len(v4) > 0 && ip == v4[0] {
			family = "4"
		}
		e.key("ip" + family)
		e.begin('{')
		e.text("ip", ip.Address.String())
		e.ip("gateway", ip.Gateway)
		e.list("routes", func() {
			for _, route := range r.Routes {
				if (route.Dst.IP.To4() != nil) == (family == "4") {
					e.begin('{')
					e.text("dst", route.Dst.String())
					e.ip("gw", route.GW)
					e.end('}', routeKey(&route.Dst, route.GW, route.Table))
				}
			}
		})
		e.end('}', ipKey(&ip.Address))
	}
	e.dns(&r.DNS)
	e.end('}', resultKey)
	return nil
}

// current writes the form from 0.3.0 on.
func (e *encoder) current(r *types100.Result) {
	before1 := compareVersions(e.version, "1.0.0") < 0
	e.begin('{')
	e.text("cniVersion", e.version)
	e.list("interfaces", func() {
		for _, i := range r.Interfaces {
			e.iface(i, before1)
		}
	})
	e.list("ips", func() {
		for _, ip := range r.IPs {
			e.begin('{')
			if before1 {
				e.text("version", map[bool]string{true: "4", false: "6"}[ip.Address.IP.To4() != nil])
			}
			e.number("interface", ip.Interface)
			e.text("address", ip.Address.String())
			e.ip("gateway", ip.Gateway)
			e.end('}', ipKey(&ip.Address))
		}
	})
	e.list("routes", func() {
		for _, route := range r.Routes {
			e.route(route)
		}
	})
	e.dns(&r.DNS)
	e.end('}', resultKey)
}

func (e *encoder) iface(i *types100.Interface, before1 bool) {
	e.begin('{')
	e.key("name")
	e.string(i.Name)
	e.text("mac", i.Mac)
	if !before1 {
		e.nonZero("mtu", i.Mtu)
	}
	e.text("sandbox", i.Sandbox)
	if !before1 {
		e.text("socketPath", i.SocketPath)
		e.text("pciID", i.PciID)
	}
	e.end('}', interfaceKey(i.Name, i.Sandbox))
}

func (e *encoder) route(r *types.Route) {
	e.begin('{')
	e.text("dst", r.Dst.String())
	e.ip("gw", r.GW)
	e.nonZero("mtu", r.MTU)
	e.nonZero("advmss", r.AdvMSS)
	e.nonZero("priority", r.Priority)
	e.number("table", r.Table)
	e.number("scope", r.Scope)
	e.end('}', routeKey(&r.Dst, r.GW, r.Table))
}

func (e *encoder) dns(d *types.DNS) {
	if d.IsEmpty() && len(e.more[dnsKey]) == 0 {
		return
	}
	e.key("dns")
	e.begin('{')
	e.strings("nameservers", d.Nameservers)
	e.text("domain", d.Domain)
	e.strings("search", d.Search)
	e.strings("options", d.Options)
	e.end('}', dnsKey)
}

// comma separates what follows from what stands before it in the same object or list.
func (e *encoder) comma() {
	if n := len(e.buf); n > 0 && !strings.ContainsRune("{[:", rune(e.buf[n-1])) {
		e.buf = append(e.buf, ',')
	}
}

func (e *encoder) begin(bracket byte) {
	e.comma()
	e.buf = append(e.buf, bracket)
}

// end closes what begin opened, with the unknown members that belong there.
func (e *encoder) end(bracket byte, key string) {
	for _, m := range e.more.next(key) {
		e.key(m.key)
		e.buf = append(e.buf, m.value...)
	}
	e.buf = append(e.buf, bracket)
}

// list writes a list, or nothing where item writes none.
func (e *encoder) list(key string, items func()) {
	before := len(e.buf)
	e.key(key)
	e.buf = append(e.buf, '[')
	begun := len(e.buf)
	if items(); len(e.buf) == begun {
		e.buf = e.buf[:before]
		return
	}
	e.buf = append(e.buf, ']')
}

func (e *encoder) key(key string) {
	e.comma()
	e.quote(key)
	e.buf = append(e.buf, ':')
}

func (e *encoder) string(s string) {
	e.comma()
	e.quote(s)
}

func (e *encoder) quote(s string) {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, err := json.Marshal(s)
			if err != nil {
				panic(err) // a string always encodes
			}
			e.buf = append(e.buf, quoted...)
			return
		}
	}
	e.buf = append(append(append(e.buf, '"'), s...), '"')
}

func (e *encoder) text(key, s string) {
	if s != "" {
		e.key(key)
		e.string(s)
	}
}

func (e *encoder) strings(key string, all []string) {
	e.list(key, func() {
		for _, s := range all {
			e.string(s)
		}
	})
}

func (e *encoder) ip(key string, ip net.IP) {
	if len(ip) > 0 {
		e.text(key, ip.String())
	}
}

func (e *encoder) nonZero(key string, n int) {
	if n != 0 {
		e.number(key, &n)
	}
}

func (e *encoder) number(key string, n *int) {
	if n != nil {
		e.key(key)
		e.buf = strconv.AppendInt(e.buf, int64(*n), 10)
	}
}
