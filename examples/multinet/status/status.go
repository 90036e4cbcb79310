package status

import (
	"bytes"
	"encoding/json"
	"net"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
)

// Attachment is what an entry is made from.
type Attachment struct {
	Name       string           // of the network: "namespace/name" of its definition, or the name in its configuration
	Result     *types100.Result // the plugin's answer, with the default routes that the pod has in the end; nil: none
	DeviceInfo json.RawMessage  // what is known of its device; nil: nothing
	NoDefault  bool             // it is known that it has no default route; else the default network has one that no plugin told of
}

// Entry is one element of the annotation. What is not known is left out.
type Entry struct {
	Name       string          `json:"name"`
	Interface  string          `json:"interface,omitempty"` // in the pod; empty where the plugin named none
	IPs        []string        `json:"ips,omitempty"`       // without the length of their prefix
	MAC        string          `json:"mac,omitempty"`
	MTU        int             `json:"mtu,omitempty"`     // where the plugin told it (results of version 1.1.0)
	Default    bool            `json:"default,omitempty"` // the pod's default route leads here; one entry has it, or none where there is no such route
	DNS        types.DNS       `json:"dns"`
	DeviceInfo json.RawMessage `json:"device-info,omitempty"`
	Gateway    []string        `json:"gateway,omitempty"` // of the default routes of this network
}

// Of makes the entries, one for each attachment, in their order. The first is the default network.
func Of(attachments []Attachment) []Entry {
	entries := make([]Entry, len(attachments))
	for i, a := range attachments {
		entries[i] = Entry{Name: a.Name, DeviceInfo: a.DeviceInfo}
		if a.Result != nil {
			entries[i].fill(a.Result)
		}
	}
	if i := defaultOf(attachments); i >= 0 {
		entries[i].Default = true
	}
	return entries
}

func (e *Entry) fill(r *types100.Result) {
	own := -1
	for i, in := range r.Interfaces {
		if in != nil && in.Sandbox != "" {
			own, e.Interface, e.MAC, e.MTU = i, in.Name, in.Mac, in.Mtu
			break
		}
	}
	for _, ip := range r.IPs {
		// An address without an index is the attachment's; where nothing is in the sandbox an index says nothing either.
		if own < 0 || ip.Interface == nil || *ip.Interface == own {
			e.IPs = append(e.IPs, ip.Address.IP.String())
		}
	}
	for _, route := range r.Routes {
		if isDefault(route) {
			e.Gateway = append(e.Gateway, gateways(route, r.IPs)...)
		}
	}
	e.DNS = r.DNS
}

// gateways are a default route's: its own, or else those that the addresses of its family have, which is what a plugin
// puts into the kernel then.
func gateways(route *types.Route, ips []*types100.IPConfig) []string {
	if route.GW != nil {
		return []string{route.GW.String()}
	}
	for _, ip := range ips {
		if ip.Gateway != nil && (ip.Gateway.To4() != nil) == (route.Dst.IP.To4() != nil) {
			return []string{ip.Gateway.String()}
		}
	}
	return nil
}

// defaultOf is the attachment that the pod's default route leads to: IPv4's before IPv6's, the first of several; the
// default network where no plugin told of any, unless it has none; -1 is none.
func defaultOf(attachments []Attachment) int {
	for _, v4 := range []bool{true, false} {
		for i, a := range attachments {
			if a.Result == nil {
				continue
			}
			for _, route := range a.Result.Routes {
				if isDefault(route) && (route.Dst.IP.To4() != nil) == v4 {
					return i
				}
			}
		}
	}
	if len(attachments) == 0 || attachments[0].NoDefault {
		return -1
	}
	return 0
}

// isDefault tells whether a route is a default route of the main table.
func isDefault(route *types.Route) bool {
	const mainTable = 254
	ones, bits := route.Dst.Mask.Size()
	return ones == 0 && bits > 0 && route.Dst.IP.Equal(zero(route.Dst.IP)) && (route.Table == nil || *route.Table == mainTable)
}

func zero(ip net.IP) net.IP {
	if ip.To4() != nil {
		return net.IPv4zero
	}
	return net.IPv6zero
}

// Encode writes the entries as the annotation's text: indented, as multus does, for people read it with kubectl.
func Encode(entries []Entry) (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "    ")
	if err := e.Encode(entries); err != nil {
		return "", err
	}
	return string(bytes.TrimSpace(b.Bytes())), nil
}
