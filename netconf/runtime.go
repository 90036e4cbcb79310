package netconf

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// RuntimeConfig is what the runtime asks of this attachment, by capability (CONVENTIONS.md, "Dynamic
// Plugin specific fields"). What is not asked for has its zero value. Keys are taken by their exact name.
type RuntimeConfig struct {
	PortMappings []PortMapping // "portMappings"
	IPRanges     [][]IPRange   // "ipRanges": a set for each address to allocate, as host-local's "ranges"; at most 1,000 ranges, no two with an address in common
	IPs          []IP          // "ips": see Request.IPs
	MAC          MAC           // "mac": see Request.MAC
	Bandwidth    *Bandwidth    // "bandwidth"; nil: no limits are asked for
	DNS          *RuntimeDNS   // "dns"; nil: none
	Aliases      []string      // "aliases": names in this network. A list, or (podman, dnsname) an object of lists by the network's name
	// InfinibandGUID is "infinibandGUID": eight bytes in lower case with ':' between, not all zero, not all 0xff.
	InfinibandGUID string
	// DeviceID is "deviceID": whatever the device plugin calls it, a PCI address or not. It is not
	// checked: no path is made of it unseen.
	DeviceID       string
	CgroupPath     string            // "cgroupPath": of the pod; not checked
	PodAnnotations map[string]string // "io.kubernetes.cri.pod-annotations", which containerd and CRI-O know
	// Other holds the keys that are not above, as received; nil if there are none.
	Other map[string]json.RawMessage
}

// PortMapping is a port of the host that leads into the container.
type PortMapping struct {
	HostPort      int    `json:"hostPort"`      // 1 to 65535: 0, which some runtimes send for "no port", is an error as in the reference portmap
	ContainerPort int    `json:"containerPort"` // 1 to 65535
	Protocol      string `json:"protocol"`      // "tcp" (also if absent), "udp" or "sctp"; written in any case, here in lower
	HostIP        Addr   `json:"hostIP"`        // the address on the host; 0.0.0.0 and :: are all of the family, not valid is all of both
}

// IPRange is a part of a network from which an address may come. Its addresses are of one family.
type IPRange struct {
	Subnet     Prefix `json:"subnet"`     // without a host part; always there
	RangeStart Addr   `json:"rangeStart"` // the first address; not valid: the subnet's first
	RangeEnd   Addr   `json:"rangeEnd"`   // the last one; not valid: the subnet's last
	Gateway    Addr   `json:"gateway"`    // in the subnet; not valid: the allocator chooses
}

// Bandwidth limits what goes through an interface, in bits and bits per second. A burst without its rate
// is an error; for a rate without a burst (0), which the reference plugin refuses, the one who
// shapes chooses one.
type Bandwidth struct {
	IngressRate  Quantity `json:"ingressRate"`  // into the container, per second; 0: no limit; else at least 8, a byte
	IngressBurst Quantity `json:"ingressBurst"` // at most 8 times 2^32-2, what tc can hold
	EgressRate   Quantity `json:"egressRate"`   // out of the container
	EgressBurst  Quantity `json:"egressBurst"`
}

// RuntimeDNS is the DNS setting of a pod, in the spelling of the capability. The texts are not checked.
type RuntimeDNS struct {
	Servers  []string `json:"servers"`
	Searches []string `json:"searches"`
	Options  []string `json:"options"`
}

// Runtime is the runtimeConfig, typed and checked. It is decoded when it is first asked for: a call that
// does not ask pays nothing, and does not fail for what nobody reads. What is wrong is noted with
// Reject, with JSON path, line and column, code 6 for a value of the wrong kind and 7 for one that is of the
// right kind and wrong; the key then has its zero value. Who needs an address or a hardware
// address alone calls IPs or MAC. The value is shared: it is not to be changed.
func (r *Request) Runtime() *RuntimeConfig {
	if r.runtime == nil {
		r.runtime = r.readRuntime()
	}
	return r.runtime
}

func (r *Request) readRuntime() *RuntimeConfig {
	c := &RuntimeConfig{}
	rest := maps.Clone(r.Network.RuntimeConfig)
	take := func(key string, into any) (path string, ok bool) {
		path, value := "runtimeConfig."+key, rest[key]
		delete(rest, key)
		_, ok = r.part(path, value, into)
		return path, ok
	}
	if path, ok := take("portMappings", &c.PortMappings); ok {
		c.PortMappings = r.checkPorts(path, c.PortMappings)
	}
	if path, ok := take("ipRanges", &c.IPRanges); ok && !r.checkRanges(path, c.IPRanges) {
		c.IPRanges = nil
	}
	if path, ok := take("ips", &c.IPs); ok {
		c.IPs = r.checkIPs(path, c.IPs)
	}
	take("mac", &c.MAC)
	if path, ok := take("bandwidth", &c.Bandwidth); ok && !r.checkBandwidth(path, c.Bandwidth) {
		c.Bandwidth = nil
	}
	take("dns", &c.DNS)
	if aliases := rest["aliases"]; len(aliases) > 0 && aliases[skipSpace(aliases, 0)] == '{' {
		var byNetwork map[string][]string
		take("aliases", &byNetwork)
		c.Aliases = byNetwork[r.Network.Name]
	} else {
		take("aliases", &c.Aliases)
	}
	if path, ok := take("infinibandGUID", &c.InfinibandGUID); ok {
		c.InfinibandGUID = r.checkGUID(path, c.InfinibandGUID)
	}
	take("deviceID", &c.DeviceID)
	take("cgroupPath", &c.CgroupPath)
	take("io.kubernetes.cri.pod-annotations", &c.PodAnnotations)
	if len(rest) > 0 {
		c.Other = rest
	}
	return c
}

// part decodes the value that stands at a path of the configuration into what into points to, which is zero.
// found tells whether there is one, ok whether it decodes: if not, that is noted with Reject, and into stays zero.
func (r *Request) part(path string, value json.RawMessage, into any) (found, ok bool) {
	if len(value) == 0 || string(value) == "null" {
		return false, false
	}
	if !json.Valid(value) { // a request made by hand
		r.Reject(r.at(CodeDecodingFailure, path, errors.New("not JSON")))
		return true, false
	}
	d := decoder{op: "configuration", src: value, quiet: true}
	target := pointer(into)
	d.value("", skipSpace(value, 0), target)
	if len(d.errs) > 0 {
		r.Reject(r.within(path, d.failures()))
		target.SetZero()
	}
	return true, len(d.errs) == 0
}

// hostPort is a port of an address of the host, or of all addresses of a family.
type hostPort struct {
	addr     netip.Addr
	port     int
	protocol string
}

// on lists where a mapping listens: without an address that is everywhere, in both families.
func (m PortMapping) on() []hostPort {
	addrs := []netip.Addr{m.HostIP.Addr}
	if !m.HostIP.IsValid() {
		addrs = []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()}
	}
	var all []hostPort
	for _, a := range addrs {
		all = append(all, hostPort{a, m.HostPort, m.Protocol})
	}
	return all
}

// checkPorts checks ports and protocols, and that no two mappings want the same port of the host for
// different ends. What another mapping does already is left out: all of a mapping that is given twice, one family
// of one without an address. With an error it is nil.
func (r *Request) checkPorts(path string, all []PortMapping) []PortMapping {
	taken := map[hostPort]int{} // the container's port
	var out []PortMapping
	errs := &some{r: r}
	for i, m := range all {
		at := fmt.Sprintf("%s[%d]", path, i)
		errs.port(at+".hostPort", m.HostPort)
		errs.port(at+".containerPort", m.ContainerPort)
		if m.Protocol = strings.ToLower(m.Protocol); m.Protocol == "" {
			m.Protocol = "tcp"
		}
		if _, err := OneOf([]byte(m.Protocol), "tcp", "udp", "sctp"); err != nil {
			errs.add(at+".protocol", "%w", err)
		}
		on := m.on()
		left := slices.DeleteFunc(slices.Clone(on), func(h hostPort) bool { _, ok := taken[h]; return ok })
		for _, h := range on {
			if port, ok := taken[h]; ok && port != m.ContainerPort {
				errs.add(at+".hostPort", "%s port %d leads to container port %d already", m.Protocol, m.HostPort, port)
				break
			}
			taken[h] = m.ContainerPort
		}
		if len(left) > 0 {
			if len(left) < len(on) {
				m.HostIP.Addr = left[0].addr
			}
			out = append(out, m)
		}
	}
	if errs.n > 0 {
		return nil
	}
	return out
}

// checkRanges checks what an allocator needs to be true of each range, and that no address is in two of them, as
// the reference host-local does: whether in one set or in two.
func (r *Request) checkRanges(path string, sets [][]IPRange) bool {
	errs := &some{r: r}
	for i, set := range sets {
		at := fmt.Sprintf("%s[%d]", path, i)
		if len(set) == 0 {
			errs.add(at, "empty: expected at least one range")
		}
		for j, x := range set {
			at := fmt.Sprintf("%s[%d]", at, j)
			subnet := x.Subnet.Prefix
			switch {
			case !subnet.IsValid():
				errs.add(at+".subnet", "missing: expected %s", x.Subnet.Expects())
				continue
			case subnet != subnet.Masked():
				errs.add(at+".subnet", "%s has a host part: expected %s", subnet, subnet.Masked())
			case set[0].Subnet.IsValid() && subnet.Addr().Is4() != set[0].Subnet.Addr().Is4():
				errs.add(at+".subnet", "%s is of another family than the set's first, %s: one address comes from the set", subnet, set[0].Subnet)
			}
			errs.inside(at+".rangeStart", x.RangeStart, x.Subnet)
			errs.inside(at+".rangeEnd", x.RangeEnd, x.Subnet)
			errs.inside(at+".gateway", x.Gateway, x.Subnet)
			if x.RangeStart.IsValid() && x.RangeEnd.IsValid() && x.RangeEnd.Less(x.RangeStart.Addr) {
				errs.add(at+".rangeEnd", "%s is before the start, %s", x.RangeEnd, x.RangeStart)
			}
		}
	}
	if errs.n == 0 {
		errs.overlaps(path, sets)
	}
	return errs.n == 0
}

// maxRanges is how many ranges are looked at: each is compared with all before it, which for these takes 20 ms.
const maxRanges = 1000

// overlaps finds ranges, each of which is right, that have an address in common with one before them.
func (s *some) overlaps(path string, sets [][]IPRange) {
	type span struct {
		at          string
		first, last netip.Addr
	}
	var before []span
	for i, set := range sets {
		for j, x := range set {
			first, last := x.bounds()
			now := span{fmt.Sprintf("%s[%d][%d]", path, i, j), first, last}
			if len(before) == maxRanges {
				s.add(now.at, "more than %d ranges", maxRanges)
				return
			}
			for _, b := range before { // an IPv4 address is less than any IPv6 one
				if now.first.Compare(b.last) <= 0 && b.first.Compare(now.last) <= 0 {
					s.add(now.at, "%s to %s overlaps with %s, %s to %s", now.first, now.last, b.at, b.first, b.last)
					break
				}
			}
			before = append(before, now)
		}
	}
}

// bounds are the first and the last address of a range.
func (x IPRange) bounds() (first, last netip.Addr) {
	if first = x.Subnet.Addr(); x.RangeStart.IsValid() {
		first = x.RangeStart.Addr
	}
	if x.RangeEnd.IsValid() {
		return first, x.RangeEnd.Addr
	}
	end := x.Subnet.Addr().AsSlice()
	for bit := x.Subnet.Bits(); bit < 8*len(end); bit++ {
		end[bit/8] |= 0x80 >> (bit % 8)
	}
	last, _ = netip.AddrFromSlice(end) // of the length of an address
	return first, last
}

func (r *Request) checkBandwidth(path string, b *Bandwidth) bool {
	// The bandwidth plugin's own: fewer than 2^32-1 whole bytes. CRI-O sends the largest for every shaped pod.
	const maxBurst = 8*math.MaxUint32 - 1
	errs := &some{r: r}
	for _, x := range []struct {
		key         string
		rate, burst Quantity
	}{{"ingress", b.IngressRate, b.IngressBurst}, {"egress", b.EgressRate, b.EgressBurst}} {
		at := path + "." + x.key
		if x.rate > 0 && x.rate < 8 {
			errs.add(at+"Rate", "%d bits per second are less than a byte: expected 0 for no limit, or at least 8", x.rate)
		}
		if x.burst > 0 && x.rate == 0 {
			errs.add(at+"Burst", "a burst without %sRate", x.key)
		}
		if x.burst > maxBurst {
			errs.add(at+"Burst", "%d bits are too many: expected at most %d", x.burst, uint64(maxBurst))
		}
	}
	return errs.n == 0
}

func (r *Request) checkGUID(path, s string) string {
	if s == "" {
		return ""
	}
	guid, err := net.ParseMAC(s)
	if err != nil || len(guid) != 8 {
		r.Reject(r.Invalid(path, "%s is not an InfiniBand GUID: expected eight bytes as in c2:11:22:33:44:55:66:77", shown([]byte(s))))
		return ""
	}
	if text := guid.String(); strings.Trim(text, "0:") != "" && strings.Trim(text, "f:") != "" {
		return text
	}
	r.Reject(r.Invalid(path, "%s is reserved: expected a GUID that is neither all zero nor all ones", shown([]byte(s))))
	return ""
}

// some rejects the first errors of a list, which may be long: each costs a walk to learn its line.
type some struct {
	r *Request
	n int // all of them
}

func (s *some) port(path string, n int) {
	if n < 1 || n > math.MaxUint16 {
		s.add(path, "%d is no port: expected 1 to 65535", n)
	}
}

func (s *some) inside(path string, a Addr, subnet Prefix) {
	if a.IsValid() && !subnet.Contains(a.Addr) {
		s.add(path, "%s is not in %s", a, subnet)
	}
}

func (s *some) add(path, format string, args ...any) {
	if s.n++; s.n <= maxErrors {
		s.r.Reject(s.r.Invalid(path, format, args...))
	}
}
