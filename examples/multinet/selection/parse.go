package selection

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/cnikit/cnikit/netconf"
)

// maxElements is how many networks one pod may ask for: more is an accident, and each costs a request.
const maxElements = 256

// Parse reads an annotation: networks separated by commas, each [namespace/]name[@interface], or a JSON list of
// objects. namespace is the pod's. A blank annotation asks for nothing. All that is wrong is told together.
func Parse(annotation, namespace string) ([]Element, error) {
	text := strings.TrimSpace(annotation)
	var elements []Element
	var err error
	switch {
	case text == "":
		return nil, nil
	case strings.ContainsAny(text, `[{"`): // none of them can be in a name
		elements, err = parseJSON(text)
	default:
		elements, err = parseShort(text)
	}
	if err == nil && len(elements) > maxElements {
		err = invalid("%d networks: expected at most %d", len(elements), maxElements)
	}
	if err != nil {
		return nil, err
	}
	for i := range elements {
		if elements[i].Namespace == "" {
			elements[i].Namespace = namespace
		}
	}
	return elements, nil
}

// ParseOne is Parse of an annotation that names exactly one network, as the one for the default network does.
func ParseOne(annotation, namespace string) (Element, error) {
	elements, err := Parse(annotation, namespace)
	switch {
	case err != nil:
		return Element{}, err
	case len(elements) != 1:
		return Element{}, invalid("%q names %d networks: expected one", clip(annotation), len(elements))
	}
	return elements[0], nil
}

func parseShort(text string) ([]Element, error) {
	var elements []Element
	var errs []error
	for i, item := range strings.Split(text, ",") {
		e, err := parseItem(strings.TrimSpace(item))
		if err != nil {
			errs = append(errs, invalid("item %d, %q: %w", i+1, clip(item), err))
		}
		elements = append(elements, e)
	}
	return elements, firstOf(errs)
}

// parseItem reads [namespace/]name[@interface].
func parseItem(item string) (Element, error) {
	if item == "" {
		return Element{}, errors.New("empty: is there a comma too many")
	}
	network, ifname, named := strings.Cut(item, "@")
	if named {
		if err := checkInterface(strings.TrimSpace(ifname)); err != nil {
			return Element{}, err
		}
		if strings.Contains(ifname, "@") {
			return Element{}, errors.New("two @: expected [namespace/]name[@interface]")
		}
	}
	namespace, name, spaced := strings.Cut(network, "/")
	if !spaced {
		namespace, name = "", network
	} else if strings.TrimSpace(namespace) == "" {
		return Element{}, errors.New("nothing before the slash: expected a namespace")
	}
	e := Element{Namespace: strings.TrimSpace(namespace), Name: strings.TrimSpace(name), Interface: strings.TrimSpace(ifname)}
	return e, e.check()
}

// item is an object of the JSON list.
type item struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	Interface string `json:"interface"`
	OldName   string `json:"interfaceRequest"` // before multus 3.2

	IPs          json.RawMessage `json:"ips"`
	MAC          json.RawMessage `json:"mac"`
	GUID         json.RawMessage `json:"infiniband-guid"`
	PortMappings json.RawMessage `json:"portMappings"`
	Bandwidth    json.RawMessage `json:"bandwidth"`
	DeviceID     json.RawMessage `json:"deviceID"`

	Args         map[string]json.RawMessage `json:"cni-args"`
	DefaultRoute *[]netconf.Addr            `json:"default-route"`
	IPAMClaim    string                     `json:"ipam-claim-reference"`
}

func parseJSON(text string) ([]Element, error) {
	if !json.Valid([]byte(text)) {
		var any json.RawMessage
		return nil, invalid("not JSON: %w", json.Unmarshal([]byte(text), &any)) // says where
	}
	if text[0] != '[' {
		return nil, invalid("expected a list of objects, such as [{\"name\": \"net-a\"}]")
	}
	// The SDK decodes objects: the list is the one key of one, on a line of its own, so that columns are the list's.
	list, err := netconf.DecodeJSON[struct {
		Networks []*item `json:"networks"`
	}]([]byte("{\"networks\":\n"+text+"\n}"), nil)
	if err != nil {
		return nil, placed(err)
	}
	var elements []Element
	var errs []error
	for i, it := range list.Networks {
		var e Element
		err := errors.New("null: expected an object")
		if it != nil {
			e, err = it.element()
		}
		if err != nil {
			errs = append(errs, invalid("item %d: %w", i+1, err))
		}
		elements = append(elements, e)
	}
	return elements, firstOf(errs)
}

// placed gives errors of the list their place in the annotation.
func placed(err error) error {
	var all []error
	for _, one := range netconf.Split(err) {
		var e *netconf.Error
		if !errors.As(one, &e) {
			return err // cannot be: all of them are
		}
		all = append(all, invalid("%s (line %d, column %d): %v", strings.TrimPrefix(e.Path, "networks"), e.Line-1, e.Column, e.Err))
	}
	return netconf.Join(all...)
}

func (it *item) element() (Element, error) {
	e := Element{Namespace: it.Namespace, Name: it.Name, Interface: it.Interface, Args: it.Args, IPAMClaim: it.IPAMClaim}
	if e.Interface == "" {
		e.Interface = it.OldName
	}
	errs := []error{e.check()}
	if e.Interface != "" {
		errs = append(errs, checkInterface(e.Interface))
	}
	var err error
	if e.Requests, err = it.requests(); err != nil {
		errs = append(errs, err)
	}
	if e.Gateways, err = it.gateways(); err != nil {
		errs = append(errs, err)
	}
	if e.IPAMClaim != "" && e.Requests["ips"] != nil {
		errs = append(errs, errors.New("ips and ipam-claim-reference: the addresses are the claim's, expected one of the two"))
	}
	return e, netconf.Join(errs...)
}

// requests are what is asked for by capability. The SDK checks the values as the plugins will: one place says what
// an address is.
func (it *item) requests() (map[string]json.RawMessage, error) {
	all := map[string]json.RawMessage{
		"ips": it.IPs, "mac": it.MAC, "infinibandGUID": it.GUID,
		"portMappings": it.PortMappings, "bandwidth": it.Bandwidth, "deviceID": it.DeviceID,
	}
	maps.DeleteFunc(all, func(key string, value json.RawMessage) bool {
		return len(value) == 0 || string(value) == "null" || string(value) == `""` && key != "ips"
	})
	if len(all) == 0 {
		return nil, nil
	}
	req := &netconf.Request{Network: netconf.Network{RuntimeConfig: all}}
	asked := req.Runtime()
	err := req.Rejected()
	if err == nil && all["ips"] != nil && len(asked.IPs) == 0 {
		err = errors.New("ips: an empty list, expected an address or no such key")
	}
	if err != nil {
		return nil, errors.New(strings.ReplaceAll(strings.ReplaceAll(err.Error(), "configuration: ", ""), "runtimeConfig.", ""))
	}
	return all, nil
}

func (it *item) gateways() ([]netip.Addr, error) {
	if it.DefaultRoute == nil {
		return nil, nil
	}
	gateways := []netip.Addr{}
	for _, g := range *it.DefaultRoute {
		switch {
		case !g.IsValid():
			return nil, errors.New("default-route: an empty gateway")
		case g.IsUnspecified() || g.IsMulticast() || g.IsLoopback():
			return nil, fmt.Errorf("default-route: %q cannot be a gateway", g.Addr)
		case slices.Contains(gateways, g.Addr):
			return nil, fmt.Errorf("default-route: %q is there twice", g.Addr)
		}
		gateways = append(gateways, g.Addr)
	}
	return gateways, nil
}

// invalid is an error with the code of this package.
func invalid(format string, args ...any) error {
	return netconf.Errorf(netconf.CodeInvalidNetworkConfig, format, args...)
}

// firstOf is the first errors: an annotation of 256 kB can have a hundred thousand.
func firstOf(errs []error) error {
	const most = 20
	if len(errs) > most {
		errs = append(errs[:most:most], invalid("and %d more", len(errs)-most))
	}
	return netconf.Join(errs...)
}

// clip is the beginning of a text, for messages.
func clip(s string) string {
	const most = 100
	if len(s) > most {
		return s[:most] + "..."
	}
	return s
}
