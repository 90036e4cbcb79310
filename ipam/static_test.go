package ipam_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/cnikit/cnikit/ipam"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

// static makes a request whose ipam section has the keys, and whose configuration ends with more.
func static(t *testing.T, command netconf.Command, version, keys, more string, args netconf.Args) *netconf.Request {
	t.Helper()
	req, _ := call(t, command, fmt.Sprintf(`{"cniVersion":%q,"name":"net","type":"main","mode":"x","ipam":{"type":"static"%s}%s}`, version, keys, more))
	req.Args = args
	return req
}

// words writes addresses and routes in one line.
func words(r *types100.Result) string {
	var out []string
	for _, ip := range r.IPs {
		text := ip.Address.String()
		if ip.Gateway != nil {
			text += " via " + ip.Gateway.String()
		}
		if ip.Interface != nil {
			text += " on an interface"
		}
		out = append(out, text)
	}
	for _, route := range r.Routes {
		text := "to " + route.Dst.String()
		if route.GW != nil {
			text += " via " + route.GW.String()
		}
		out = append(out, text)
	}
	return strings.Join(out, ", ")
}

const lan = `,"addresses":[{"address":"10.0.0.5/24","gateway":"10.0.0.1"},{"address":"fd00::5/64"}]`

// What counts of what is asked for, and where. The same is given by the Go value in the place of the program.
func TestStaticGives(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, version, keys, more string
		args                      netconf.Args
		want                      string
	}{
		{"both families", "1.1.0", lan, "", nil, "10.0.0.5/24 via 10.0.0.1, fd00::5/64"},
		{"a route with a host part", "1.1.0", lan + `,"routes":[{"dst":"10.8.3.1/16"},{"dst":"fd00:8::7/64"}]`, "", nil, "10.0.0.5/24 via 10.0.0.1, fd00::5/64, to 10.8.3.1/16, to fd00:8::7/64"},
		{"in an old version", "0.2.0", lan, "", nil, "10.0.0.5/24 via 10.0.0.1, fd00::5/64"},
		{"without a version", "", lan, "", nil, "10.0.0.5/24 via 10.0.0.1, fd00::5/64"},
		{"two of a family", "0.3.0", `,"addresses":[{"address":"10.0.0.5/24"},{"address":"10.0.0.6/24"}]`, "", nil, "10.0.0.5/24, 10.0.0.6/24"},
		{"small networks", "1.1.0", `,"addresses":[{"address":"10.0.0.0/31","gateway":"10.0.0.1"},{"address":"10.0.1.255/32","gateway":"10.9.0.1"},{"address":"fd00::/127"}]`, "", nil, "10.0.0.0/31 via 10.0.0.1, 10.0.1.255/32 via 10.9.0.1, fd00::/127"},
		{"a link-local gateway", "1.1.0", `,"addresses":[{"address":"fd00::5/64","gateway":"fe80::1"}]`, "", nil, "fd00::5/64 via fe80::1"},
		{"empty gateway", "1.1.0", `,"addresses":[{"address":"10.0.0.5/24","gateway":""}]`, "", nil, "10.0.0.5/24"},
		{"routes", "1.1.0", lan + `,"routes":[{"dst":"0.0.0.0/0"},{"dst":"10.8.0.0/16","gw":"10.0.0.9"},{"dst":"::/0","gw":"fe80::1"}]`, "", nil,
			"10.0.0.5/24 via 10.0.0.1, fd00::5/64, to 0.0.0.0/0, to 10.8.0.0/16 via 10.0.0.9, to ::/0 via fe80::1"},
		{"IP of CNI_ARGS", "1.1.0", lan, "", netconf.Args{"IP": "10.0.0.7/24, fd00::7/64", "LABEL": "YWJj=="}, "10.0.0.7/24, fd00::7/64"},
		{"with GATEWAY", "1.1.0", lan, "", netconf.Args{"IP": "10.0.0.7/24,10.1.0.7/24,fd00::7/64", "GATEWAY": "10.0.0.2, fd00::2"}, "10.0.0.7/24 via 10.0.0.2, 10.1.0.7/24, fd00::7/64 via fd00::2"},
		{"GATEWAY alone", "1.1.0", lan, "", netconf.Args{"GATEWAY": "10.0.0.2"}, "10.0.0.5/24 via 10.0.0.2, fd00::5/64"},
		{"args.cni", "1.1.0", lan, `,"args":{"cni":{"ips":["10.0.0.8/24"]}}`, netconf.Args{"IP": "10.0.0.7/24", "GATEWAY": "10.0.0.2"}, "10.0.0.8/24"},
		{"an empty args.cni", "1.1.0", lan, `,"args":{"cni":{"ips":[]}}`, netconf.Args{"IP": "10.0.0.7/24"}, "10.0.0.7/24"},
		{"runtimeConfig", "1.1.0", lan, `,"args":{"cni":{"ips":["10.0.0.8/24"]}},"runtimeConfig":{"ips":["10.0.0.9/24","fd00::9/64"],"mac":"no"}`, netconf.Args{"IP": "x", "GATEWAY": "192.0.2.1"}, "10.0.0.9/24, fd00::9/64"},
		{"runtimeConfig alone", "1.1.0", "", `,"runtimeConfig":{"ips":["10.0.0.9/24"]}`, nil, "10.0.0.9/24"},
		{"the same twice", "1.1.0", "", `,"runtimeConfig":{"ips":["10.0.0.9/24","10.0.0.9/24"]}`, nil, "10.0.0.9/24"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			req := static(t, netconf.Add, c.version, c.keys, c.more, c.args)
			step := ipam.FromConfig(req, ipam.StaticInProcess())
			if err := step.Add(t.Context(), req); err != nil || words(req.Result) != c.want || req.Rejected() != nil {
				t.Errorf("%v, %s (rejected %v): expected %s", err, words(req.Result), req.Rejected(), c.want)
			}
		})
	}
}

func TestStaticGivesDNSAndTheAttributesOfRoutes(t *testing.T) {
	t.Parallel()
	req := static(t, netconf.Add, "1.1.0", lan+`,"dns":{"nameservers":["10.0.0.2"],"domain":"d","search":["s"],"options":["o"]},
		"routes":[{"dst":"10.8.0.0/16","mtu":1400,"advmss":1360,"priority":7,"table":100,"scope":253}]`, "", nil)
	if err := ipam.FromConfig(req, ipam.StaticInProcess()).Add(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if d := req.Result.DNS; fmt.Sprintf("%v %v %v %v", d.Nameservers, d.Domain, d.Search, d.Options) != "[10.0.0.2] d [s] [o]" {
		t.Errorf("DNS %v", d)
	}
	r := req.Result.Routes[0]
	if r.MTU != 1400 || r.AdvMSS != 1360 || r.Priority != 7 || r.Table == nil || *r.Table != 100 || r.Scope == nil || *r.Scope != 253 {
		t.Errorf("route %v", r)
	}
}

// What is wrong is told before anything is given, with its place, and by the three verbs that need the addresses; DEL and
// GC do not look.
func TestStaticRefuses(t *testing.T) {
	t.Parallel()
	one := func(keys string) string { return `,"addresses":[{"address":"10.0.0.5/24"},{` + keys + `}]` }
	const at1 = "ipam.addresses[1].address (line 1, column "
	for _, c := range []struct {
		name, keys, more string
		args             netconf.Args
		code             uint
		words            []string
	}{
		{"no length", one(`"address":"10.0.0.6"`), "", nil, 7, []string{at1, "prefix length"}},
		{"no address", one(`"gateway":"10.0.0.1"`), "", nil, 7, []string{"ipam.addresses[1].address", "missing"}},
		{"an empty address", one(`"address":""`), "", nil, 7, []string{at1, "missing"}},
		{"a number", one(`"address":5`), "", nil, 6, []string{at1}},
		{"no list", `,"addresses":"10.0.0.5/24"`, "", nil, 6, []string{"ipam.addresses (line", "array"}},
		{"a list of strings", `,"addresses":["10.0.0.5/24"]`, "", nil, 6, []string{"ipam.addresses[0] (line", "object"}},
		{"again", one(`"address":"10.0.0.5/24"`), "", nil, 7, []string{at1, "addresses[0]"}},
		{"again with another length", one(`"address":"10.0.0.5/16"`), "", nil, 7, []string{at1, "10.0.0.5/16", "addresses[0]"}},
		{"the network", one(`"address":"10.0.1.0/24"`), "", nil, 7, []string{at1, "network or broadcast"}},
		{"the broadcast address", one(`"address":"10.0.1.255/24"`), "", nil, 7, []string{at1, "network or broadcast"}},
		{"multicast", one(`"address":"224.0.0.5/24"`), "", nil, 7, []string{at1, "no address of a host"}},
		{"loopback", one(`"address":"::1/128"`), "", nil, 7, []string{at1, "no address of a host"}},
		{"length 0", one(`"address":"10.0.0.6/0"`), "", nil, 7, []string{at1, "length 0"}},
		{"IPv4 in IPv6", one(`"address":"::ffff:10.0.0.6/120"`), "", nil, 7, []string{at1, "10.0.0.6"}},
		{"gateway of another family", one(`"address":"fd00::5/64","gateway":"10.0.0.1"`), "", nil, 7, []string{"ipam.addresses[1].gateway (line 1, column ", "family"}},
		{"gateway with a length", one(`"address":"10.0.0.6/24","gateway":"10.0.0.1/24"`), "", nil, 7, []string{"ipam.addresses[1].gateway (line"}},
		{"gateway that is none", one(`"address":"10.0.0.6/24","gateway":"224.0.0.1"`), "", nil, 7, []string{"ipam.addresses[1].gateway (line", "router"}},
		{"route without a destination", lan + `,"routes":[{"gw":"10.0.0.1"}]`, "", nil, 7, []string{"ipam.routes[0].dst", "missing"}},
		{"route of two families", lan + `,"routes":[{"dst":"::/0","gw":"10.0.0.1"}]`, "", nil, 7, []string{"ipam.routes[0].gw (line", "family"}},
		{"route through many", lan + `,"routes":[{"dst":"0.0.0.0/0","gw":"224.0.0.1"}]`, "", nil, 7, []string{"ipam.routes[0].gw (line", "router"}},
		{"two at once", `,"addresses":[{"address":"10.0.0.0/24"}],"routes":[{"dst":"::/0","gw":"10.0.0.1"}]`, "", nil, 7, []string{"ipam.addresses[0]", "ipam.routes[0]"}},
		{"two that do not decode", `,"addresses":[{"address":"10.0.0.0"}],"routes":[{"dst":"x"}]`, "", nil, 7, []string{"ipam.addresses[0]", "ipam.routes[0]"}},
		{"runtimeConfig without a length", lan, `,"runtimeConfig":{"ips":["10.0.0.9","fd00::9/64"]}`, nil, 7, []string{"runtimeConfig.ips (line", "10.0.0.9/24"}},
		{"runtimeConfig that is no list", lan, `,"runtimeConfig":{"ips":"10.0.0.9"}`, nil, 6, []string{"runtimeConfig.ips (line"}},
		{"runtimeConfig of a network", lan, `,"runtimeConfig":{"ips":["10.0.0.9/24","10.0.1.0/24"]}`, nil, 7, []string{"runtimeConfig.ips (line", "10.0.1.0/24", "network or"}},
		{"args.cni without a length", lan, `,"args":{"cni":{"ips":["fd00::9"]}}`, nil, 7, []string{"args.cni.ips (line", "fd00::9/64"}},
		{"args.cni of no address", lan, `,"args":{"cni":{"ips":["x"]}}`, nil, 7, []string{"args.cni.ips[0] (line"}},
		{"IP without a length", lan, "", netconf.Args{"IP": "10.0.0.7"}, 4, []string{"CNI_ARGS", "IP: 10.0.0.7", "10.0.0.7/24"}},
		{"IP of no address", lan, "", netconf.Args{"IP": "10.0.0"}, 4, []string{"CNI_ARGS", "IP"}},
		{"GATEWAY of no address", lan, "", netconf.Args{"GATEWAY": "10.0.0"}, 4, []string{"CNI_ARGS", "GATEWAY: \"10.0.0\""}},
		{"GATEWAY elsewhere", lan, "", netconf.Args{"GATEWAY": "10.0.0.2,10.9.0.1"}, 4, []string{"CNI_ARGS", "GATEWAY: \"10.9.0.1\""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			for _, command := range []netconf.Command{netconf.Add, netconf.Check, netconf.Status, netconf.Del, netconf.GC} {
				req := static(t, netconf.Add, "1.1.0", c.keys, c.more+`,"prevResult":{"cniVersion":"1.1.0","ips":[{"address":"10.0.0.5/24","gateway":"10.0.0.1"},{"address":"fd00::5/64"}]}`, c.args)
				req.Command = command
				step := ipam.FromConfig(req, ipam.StaticInProcess())
				err := map[netconf.Command]func(context.Context, *netconf.Request) error{netconf.Add: step.Add, netconf.Check: step.Check,
					netconf.Status: step.Status, netconf.Del: step.Del, netconf.GC: step.GC}[command](t.Context(), req)
				if req.Lenient() {
					if err != nil {
						t.Errorf("%s: %v", command, err)
					}
					continue
				}
				if netconf.Code(err) != c.code {
					t.Fatalf("%s: code %d: %v", command, netconf.Code(err), err)
				}
				for _, word := range c.words {
					if !strings.Contains(err.Error(), word) {
						t.Errorf("%s: error %q: expected %q in it", command, err, word)
					}
				}
				if command == netconf.Add && (words(req.Result) != "" || !netconf.IsUnchanged(err)) {
					t.Errorf("given all the same: %s, or it asks for a DEL", words(req.Result))
				}
			}
		})
	}
}

// A result of these versions has one address of each family: said before, with the place.
func TestStaticTwoOfAFamilyInAnOldVersion(t *testing.T) {
	t.Parallel()
	req := static(t, netconf.Add, "0.2.0", `,"addresses":[{"address":"10.0.0.5/24"},{"address":"10.0.0.6/24"}]`, "", nil)
	err := ipam.FromConfig(req, ipam.StaticInProcess()).Add(t.Context(), req)
	if netconf.Code(err) != 7 || !strings.Contains(err.Error(), "ipam.addresses[1].address (line") || !strings.Contains(err.Error(), "0.3.0") {
		t.Errorf("code %d: %v", netconf.Code(err), err)
	}
}

// That there is no address is an error of ADD and CHECK alone: what brings the addresses, the runtime, is not told on
// STATUS, nor when a file is checked (case C-RES-05).
func TestStaticWithoutAnAddress(t *testing.T) {
	t.Parallel()
	for _, keys := range []string{"", `,"addresses":[]`, `,"addresses":null`, `,"subnet":"10.0.0.0/24"`} {
		req := static(t, netconf.Add, "1.1.0", keys, "", netconf.Args{"GATEWAY": "10.0.0.1"})
		step := ipam.FromConfig(req, ipam.StaticInProcess())
		err := step.Add(t.Context(), req)
		if netconf.Code(err) != 7 || !strings.Contains(err.Error(), "no address") || !strings.Contains(err.Error(), `"static"`) || !netconf.IsUnchanged(err) {
			t.Errorf("%s: code %d: %v", keys, netconf.Code(err), err)
		}
		req.Prev = &types100.Result{}
		if err := step.Check(t.Context(), req); netconf.Code(err) != 7 {
			t.Errorf("%s: CHECK: code %d: %v", keys, netconf.Code(err), err)
		}
		for _, err := range []error{step.Status(t.Context(), req), (ipam.Static{}).Validate(req)} {
			if err != nil {
				t.Errorf("%s: STATUS: %v", keys, err)
			}
		}
	}
}

// CHECK finds what ADD gave, among what other plugins of the chain did.
func TestStaticCheck(t *testing.T) {
	t.Parallel()
	const others = `{"address":"10.9.0.5/24","gateway":"10.9.0.1"},`
	for _, c := range []struct{ prev, word string }{
		{`"ips":[` + others + `{"address":"fd00::5/64","interface":0,"gateway":"fd00::1"},{"address":"10.0.0.5/24","gateway":"10.0.0.1"}],"interfaces":[{"name":"eth0"}]`, ""},
		{`"ips":[` + others + `{"address":"10.0.0.5/24","gateway":"10.0.0.1"}]`, "fd00::5/64"},
		{`"ips":[{"address":"10.0.0.5/24","gateway":"10.0.0.2"},{"address":"fd00::5/64"}]`, "10.0.0.2"},
		{`"ips":[{"address":"10.0.0.5/24"},{"address":"fd00::5/64"}]`, "10.0.0.1 is given"},
		{`"ips":[{"address":"10.0.0.5/25","gateway":"10.0.0.1"},{"address":"fd00::5/64"}]`, "10.0.0.5/25"},
		{`"ips":[]`, "10.0.0.5/24"},
		{`"dns":{}`, "fd00::5/64"},
	} {
		req := static(t, netconf.Check, "1.1.0", lan, `,"prevResult":{"cniVersion":"1.1.0",`+c.prev+`}`, nil)
		err := ipam.FromConfig(req, ipam.StaticInProcess()).Check(t.Context(), req)
		switch {
		case c.word == "" && err != nil:
			t.Errorf("%s: %v", c.prev, err)
		case c.word != "" && (netconf.Code(err) != 102 || !strings.Contains(err.Error(), c.word)):
			t.Errorf("%s: code %d: %v: expected %q in it", c.prev, netconf.Code(err), err, c.word)
		}
	}
	req := static(t, netconf.Check, "1.1.0", lan, "", nil)
	if err := ipam.FromConfig(req, ipam.StaticInProcess()).Check(t.Context(), req); netconf.Code(err) != 7 || !strings.Contains(err.Error(), "prevResult") {
		t.Errorf("without a prevResult: code %d: %v", netconf.Code(err), err)
	}
	// In a 0.4.0 call as in a newer one; IPv4 in sixteen bytes is IPv4.
	own := ipam.Static{Addresses: []ipam.StaticAddress{{}}}
	for key, into := range map[string]func([]byte) error{"10.0.0.5/24": own.Addresses[0].Address.UnmarshalText, "10.0.0.1": own.Addresses[0].Gateway.UnmarshalText} {
		if err := into([]byte(key)); err != nil {
			t.Fatal(err)
		}
	}
	req = static(t, netconf.Check, "0.4.0", "", "", nil)
	req.Prev = &types100.Result{IPs: []*types100.IPConfig{{Address: net.IPNet{IP: net.IPv4(10, 0, 0, 5), Mask: net.CIDRMask(24, 32)}, Gateway: net.IPv4(10, 0, 0, 1)}}}
	if err := own.Check(t.Context(), req); err != nil {
		t.Error(err)
	}
}

// A step of a plugin's own, from its configuration: the other keys of the section are told of, and the caller's are not.
func TestStaticIsAStep(t *testing.T) {
	t.Parallel()
	req := static(t, netconf.Add, "1.1.0", `,"adresses":[]`+lan, "", nil)
	log := &strings.Builder{}
	req.Warn, req.Strict = func(msg string, _ ...any) { fmt.Fprintln(log, msg) }, true
	var step skel.Step = ipam.FromConfig(req, ipam.StaticInProcess())
	if err := step.Add(t.Context(), req); err != nil || !strings.Contains(log.String(), `"ipam.adresses" is ignored; did you mean "addresses"?`) || strings.Contains(log.String(), "mode") {
		t.Errorf("%v, warned %q", err, log)
	}
	step = ipam.Static{}
	if s, ok := step.(skel.Namer); !ok || s.Name() != "static" {
		t.Error("it has no name")
	}
	if _, ok := step.(skel.Collector); !ok {
		t.Error("it is no Collector")
	}
	if err := step.Del(t.Context(), req); err != nil {
		t.Error(err)
	}
	// Nobody asks for a hardware address: what is wrong with it is not noted.
	req = static(t, netconf.Add, "1.1.0", "", `,"runtimeConfig":{"ips":["10.0.0.9/24"],"mac":"no"}`, nil)
	if err := (ipam.Static{}).Add(t.Context(), req); err != nil || req.Rejected() != nil {
		t.Errorf("%v, rejected %v", err, req.Rejected())
	}
	// The values of one call are not those of the next.
	conf := ipam.Static{Addresses: []ipam.StaticAddress{{}}}
	if err := conf.Addresses[0].Address.UnmarshalText([]byte("10.0.0.5/24")); err != nil {
		t.Fatal(err)
	}
	req = static(t, netconf.Add, "1.1.0", "", "", netconf.Args{"GATEWAY": "10.0.0.2"})
	if err := conf.Add(t.Context(), req); err != nil || words(req.Result) != "10.0.0.5/24 via 10.0.0.2" || conf.Addresses[0].Gateway.IsValid() {
		t.Errorf("%v, %s, configuration now %v", err, words(req.Result), conf)
	}
}

// In the place of the program it was asked when the link was made, and PLUGIN validate said that the section was fine. What
// is unknown in it is told then too, and once.
func TestStaticInProcessIsRefusedBeforeAnyWork(t *testing.T) {
	t.Parallel()
	for command, want := range map[netconf.Command]int{netconf.Add: 2, netconf.Check: 2, netconf.Status: 2, netconf.Del: 0, netconf.GC: 0, netconf.Version: 0} {
		req := static(t, netconf.Add, "1.1.0", `,"addresses":[{"address":"10.0.0.5/33"}],"routes":[{"dst":7}]`, "", nil)
		req.Command = command
		step := ipam.FromConfig(req, ipam.StaticInProcess())
		errs := netconf.Split(req.Rejected())
		if step == nil || len(errs) != want || want > 0 && !strings.Contains(fmt.Sprint(errs), "ipam.addresses[0].address (line 1, column ") {
			t.Errorf("%s: step %v, rejected %v", command, step, errs)
		}
	}
	req := static(t, netconf.Add, "1.1.0", `,"adresses":[]`+lan, "", nil)
	var said []string
	req.Warn = func(msg string, _ ...any) { said = append(said, msg) }
	step := ipam.FromConfig(req, ipam.StaticInProcess())
	if err := req.Rejected(); err != nil || len(said) != 1 || !strings.Contains(said[0], `did you mean "addresses"?`) {
		t.Errorf("%v, warned %q", err, said)
	}
	if err := step.Add(t.Context(), req); err != nil || len(said) != 1 {
		t.Errorf("%v, warned %q", err, said)
	}
}

// Asked by VERSION, as delegate.Network.Validate does, the Go value says whether it serves the version, and does not look at
// the configuration.
func TestStaticInProcessIsAskedForItsVersion(t *testing.T) {
	t.Parallel()
	do := ipam.StaticInProcess().Do
	for version, code := range map[string]uint{"0.1.0": 0, "1.1.0": 0, "1.2.0": 1} {
		req := static(t, netconf.Add, version, `,"addresses":7`, "", nil)
		req.Command = netconf.Version
		if err := do(t.Context(), req); netconf.Code(err) != code {
			t.Errorf("%s: code %d: %v", version, netconf.Code(err), err)
		}
	}
	req := static(t, netconf.Add, "1.2.0", lan, "", nil)
	if err := do(t.Context(), req); netconf.Code(err) != 1 || words(req.Result) != "" || !netconf.IsUnchanged(err) {
		t.Errorf("ADD: code %d: %v", netconf.Code(err), err)
	}
}

// Each error costs a walk to learn its place, and this took minutes: of very many the first 20 are told, by CHECK too.
func TestStaticVeryManyErrors(t *testing.T) {
	t.Parallel()
	const n = 20_000
	var each, ips strings.Builder // n different addresses
	for i := range n {
		fmt.Fprintf(&each, `,{"address":"10.1.%d.%d/16"}`, i/250, i%250+1)
		fmt.Fprintf(&ips, `,"10.1.%d.%d"`, i/250, i%250+1)
	}
	many := func(element string) string { return "[" + strings.Repeat(element+",", n-1) + element + "]" }
	for _, c := range []struct {
		command    netconf.Command
		keys, more string
	}{
		{netconf.Add, `,"addresses":` + many(`{"address":"10.0.0.0/24"}`), ""},
		{netconf.Add, `,"addresses":` + many(`{}`), ""},
		{netconf.Add, lan + `,"routes":` + many(`{"dst":"10.0.0.0/24","gw":"224.0.0.1"}`), ""},
		{netconf.Add, lan + `,"routes":` + many(`{}`), ""},
		{netconf.Add, "", `,"runtimeConfig":{"ips":[` + ips.String()[1:] + `]}`},
		{netconf.Check, `,"addresses":[` + each.String()[1:] + `]`, ""},
	} {
		req := static(t, c.command, "1.1.0", c.keys, c.more, nil)
		req.Prev = &types100.Result{}
		step := ipam.FromConfig(req, ipam.StaticInProcess())
		run := map[netconf.Command]func(context.Context, *netconf.Request) error{netconf.Add: step.Add, netconf.Check: step.Check}[c.command]
		if err := run(t.Context(), req); err == nil || len(err.Error()) > 5_000 || strings.Count(err.Error(), "; ") != 19 {
			t.Errorf("%.100s: %d errors, %.6000v", c.keys, strings.Count(fmt.Sprint(err), "; ")+1, err)
		}
	}
}
