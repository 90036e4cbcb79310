package skeltest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

// protocolRequirements are about what is said on stdout.
func protocolRequirements() []Requirement {
	return slices.Concat(protocolVersions(), protocolStreams())
}

// protocolVersions are about versions and shapes.
func protocolVersions() []Requirement {
	return []Requirement{{
		ID: "protocol/version", Level: Must, Section: "CNI 1.1.0, 2 (VERSION), 5",
		Text:    "VERSION lists the supported versions, that of the configuration among them.",
		Explain: "A runtime asks for the versions before anything else and refuses a network whose version is not among them. Print {\"cniVersion\": ..., \"supportedVersions\": [...]} and only versions that you have tried.",
		Check:   protocolVersion,
	}, {
		ID: "protocol/version-echo", Level: Must, Section: "CNI 1.1.0, 5 (Version)",
		Text:    "VERSION answers with the cniVersion that it was asked with.",
		Explain: "A plugin that reads no stdin on VERSION answers with its own newest version, which an older runtime may not be able to read. Read stdin, and answer in the version it has.",
		Check: func(b *Bench) {
			eachVersion(b, func(b *Bench, v string) {
				a := b.Succeeds(Call{Command: netconf.Version, Config: fmt.Sprintf(`{"cniVersion":%q}`, v)})
				if got := b.Get(a.Stdout, "cniVersion"); got != quoted(v) {
					b.Errorf("asked with %q, the answer has cniVersion %s", v, got)
				}
			})
		},
	}, {
		ID: "protocol/result", Level: Must, Section: "CNI 1.1.0, 5 (Success)",
		Text:    "The result has the cniVersion and the shape of each announced version.",
		Explain: "Versions differ: ip4 and ip6 up to 0.2.0, ips with \"version\" up to 0.4.0, without it since. A runtime that asked in one version cannot read another. Convert the result to the version of the configuration, or announce fewer.",
		Check:   func(b *Bench) { eachVersion(b, protocolResult) },
	}, {
		ID: "protocol/error", Level: Must, Section: "CNI 1.1.0, 5 (Error)",
		Text:    "A call that fails has an exit status that is not 0, and one error document with code and msg on stdout.",
		Explain: "All that a user of the cluster ever sees of your plugin is this document. Without it the runtime can only say \"exit status 1\". Catch panics too, and let msg name the thing that is wrong.",
		Check:   func(b *Bench) { eachVersion(b, protocolError) },
	}, {
		ID: "protocol/error-version", Level: Must, Section: "CNI 1.1.0, 5 (Error)",
		Text:    "An error document has the cniVersion of the configuration.",
		Explain: "The error type of the usual Go library has no field for it, and so the errors of plugins that use it lack it. Add the field when you print the error.",
		Check: func(b *Bench) {
			eachVersion(b, func(b *Bench, v string) {
				if a := b.Fails(wrongIfName(b, v), "the interface name has a slash"); a.Err.CNIVersion != v {
					b.Errorf("version %s: the error document has cniVersion %q", v, a.Err.CNIVersion)
				}
			})
		},
	}}
}

// protocolStreams are about codes, stdout, and what is handed on.
func protocolStreams() []Requirement {
	return []Requirement{{
		ID: "protocol/error-codes", Level: Should, Section: "CNI 1.1.0, 5 (Error codes)",
		Text:    "What the specification has a code for is reported with that code.",
		Explain: "Runtimes decide by the code whether to try again, and monitoring counts by it. A plugin that says 999 for all hides a typo in the configuration behind the same number as a bug.",
		Check:   protocolCodes,
	}, {
		ID: "protocol/stdout", Level: Must, Section: "CNI 1.1.0, 2, 5",
		Text:    "Stdout has exactly the one result of an ADD, and nothing of a DEL.",
		Explain: "A stray print, a library's warning, or a child that inherits stdout makes the result unreadable, and the runtime fails the pod although all is attached. Log to stderr; point stdout elsewhere before you call anything, and write the one document last.",
		Check:   protocolStdout,
	}, {
		ID: "protocol/prev-result", Level: Must, Section: "CNI 1.1.0, 2 (ADD), 4", Kinds: []skel.Kind{skel.Chained},
		Text:    "The result of a plugin in a chain hands on what the plugins before it made.",
		Explain: "The last result is what the runtime takes for the pod's addresses, and what DEL and CHECK get. A plugin that prints only its own part, or nothing, takes the addresses away from everybody. Start from the prevResult, and change what you changed.",
		Check:   protocolPrev,
	}, {
		ID: "protocol/prev-unknown", Level: Must, Section: "CNI 1.1.0, 4 (\"equivalent\")", Kinds: []skel.Kind{skel.Chained},
		Text:    "Fields of the prevResult that the plugin does not know are handed on too.",
		Explain: "A later version of the specification, or another plugin, has fields that yours has no struct for. Decoding into a struct and encoding it again drops them without a word. Keep the bytes that you did not change.",
		Check:   protocolUnknown,
	}}
}

// eachVersion runs a check once for each version that the plugin announces.
func eachVersion(b *Bench, check func(b *Bench, v string)) {
	if len(b.Versions) == 0 {
		b.Fatal("VERSION lists no versions")
	}
	for _, v := range b.Versions {
		check(b, v)
	}
}

// since tells whether v is the other version or later.
func since(v, other string) bool { return netconf.Network{CNIVersion: v}.Is(other) }

func protocolVersion(b *Bench) {
	a := b.Succeeds(Call{Command: netconf.Version, Config: `{"cniVersion":"1.0.0"}`})
	if len(b.Versions) == 0 {
		b.Fatalf("no supportedVersions: %s", a.Stdout)
	}
	config := b.Config
	if len(b.before) > 0 {
		config = b.before[0]
	}
	if asked := b.Get(config, "cniVersion"); asked != "" && !slices.Contains(b.Versions, strings.Trim(asked, `"`)) {
		b.Errorf("the configuration has version %s, supported are %q", asked, b.Versions)
	}
}

func protocolResult(b *Bench, v string) {
	c := b.Container()
	c.Add.Config = b.Set(c.Add.Config, "cniVersion", quoted(v))
	if c.Add.Prev != "" {
		c.Add.Prev = b.Converted(c.Add.Prev, v)
	}
	a := b.Run(c.Add)
	if a.Exit != 0 {
		newest := b.Succeeds(b.Container().Add)
		if !since(v, "0.3.0") && len(newest.Result.IPs) == 0 {
			return // no addresses: the old result has nothing to say
		}
		b.Errorf("version %s: ADD failed: %s", v, a.Err.Msg)
		return
	}
	for _, wrong := range shape(a.Stdout, v, c, b.Kind) {
		b.Errorf("version %s: %s\n%s", v, wrong, a.Stdout)
	}
	del := c.Del()
	b.Succeeds(del)
}

// result is a result of any version.
type result struct {
	CNIVersion string
	IP4, IP6   *struct{ IP string }
	Interfaces []struct{ Name, Mac, Sandbox string }
	IPs        []struct {
		Version, Address, Gateway string
		Interface                 *int
	}
	Routes []struct{ Dst, GW string }
}

// shape lists what is wrong with a result.
func shape(document, v string, c *Container, kind skel.Kind) (wrong []string) {
	var r result
	if err := json.Unmarshal([]byte(document), &r); err != nil {
		return []string{"the result cannot be read: " + err.Error()}
	}
	say := func(bad bool, format string, args ...any) {
		if bad {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	say(r.CNIVersion != v, "cniVersion is %q", r.CNIVersion)
	if !since(v, "0.3.0") {
		say(r.IP4 == nil && r.IP6 == nil, "neither ip4 nor ip6")
		say(len(r.IPs)+len(r.Interfaces) > 0, "ips and interfaces came with 0.3.0")
		return wrong
	}
	say(r.IP4 != nil || r.IP6 != nil, "ip4 and ip6 went with 0.3.0")
	say(kind == skel.IPAM && len(r.Interfaces) > 0, "the result of an IPAM plugin has no interfaces")
	ours := slices.ContainsFunc(r.Interfaces, func(i struct{ Name, Mac, Sandbox string }) bool {
		return i.Name == c.Add.IfName && i.Sandbox == c.Add.Netns
	})
	say(kind == skel.Interface && !ours, "no interface %q with sandbox %q", c.Add.IfName, c.Add.Netns)
	for i, ip := range r.IPs {
		address, err := netip.ParsePrefix(ip.Address)
		say(err != nil, "ips[%d].address: %v", i, err)
		say(ip.Interface != nil && (*ip.Interface < 0 || *ip.Interface >= len(r.Interfaces)) && kind != skel.IPAM,
			"ips[%d].interface is out of the range of interfaces", i)
		if _, bad := netip.ParseAddr(ip.Gateway); ip.Gateway != "" {
			say(bad != nil, "ips[%d].gateway: %v", i, bad)
		}
		family := map[bool]string{true: "4", false: "6"}[address.Addr().Is4()]
		say(!since(v, "1.0.0") && ip.Version != family, "ips[%d].version is %q, up to 0.4.0 it must be %q", i, ip.Version, family)
		say(since(v, "1.0.0") && ip.Version != "", "ips[%d].version went with 1.0.0", i)
	}
	for i, route := range r.Routes {
		_, err := netip.ParsePrefix(route.Dst)
		say(err != nil, "routes[%d].dst: %v", i, err)
	}
	return wrong
}

// wrongIfName is an ADD that any plugin must refuse.
func wrongIfName(b *Bench, v string) Call {
	c := b.Container().Add
	c.Config, c.IfName = b.Set(c.Config, "cniVersion", quoted(v)), "eth/0"
	if c.Prev != "" {
		c.Prev = b.Converted(c.Prev, v)
	}
	return c
}

func protocolError(b *Bench, v string) {
	b.Fails(wrongIfName(b, v), "the interface name has a slash")
}

// errorDocument says what is wrong with the error of a failed call, but for its cniVersion.
func errorDocument(a Answer) string {
	var document struct {
		Code *uint
		Msg  string
	}
	err := json.Unmarshal([]byte(a.Stdout), &document)
	switch {
	case strings.TrimSpace(a.Stdout) == "":
		return fmt.Sprintf("nothing on stdout; exit status %d, stderr: %s", a.Exit, a.Stderr)
	case err != nil:
		return fmt.Sprintf("%v: %s", err, a.Stdout)
	case document.Code == nil || *document.Code == 0 || document.Msg == "":
		return "the error document lacks code or msg: " + a.Stdout
	}
	return ""
}

func protocolCodes(b *Bench) {
	c := b.Container()
	for _, test := range []struct {
		what string
		code uint
		call func(*Call)
	}{
		{"a configuration that is not JSON", 6, func(c *Call) { c.Config, c.Prev = `{"cniVersion": `, "" }},
		{"cniVersion 9.9.9", 1, func(c *Call) { c.Config, c.Prev = b.Set(c.Config, "cniVersion", `"9.9.9"`), "" }},
		{"no network name", 7, func(c *Call) { c.Config = b.Without(c.Config, "name") }},
		{"the network name \"a/b\"", 7, func(c *Call) { c.Config = b.Set(c.Config, "name", `"a/b"`) }},
		{"no CNI_CONTAINERID", 4, func(c *Call) { c.ContainerID = "" }},
		{"CNI_IFNAME \"eth/0\"", 4, func(c *Call) { c.IfName = "eth/0" }},
		{"CNI_COMMAND \"EAT\"", 4, func(c *Call) { c.Command = "EAT" }},
	} {
		call := c.Add
		test.call(&call)
		a := b.Run(call)
		if a.Exit == 0 || a.Err.Code != test.code {
			b.Errorf("%s: expected code %d; exit status %d, code %d, %q", test.what, test.code, a.Exit, a.Err.Code, a.Err.Msg)
		}
	}
}

func protocolStdout(b *Bench) {
	c := b.Container()
	a := b.Succeeds(c.Add)
	documents := json.NewDecoder(strings.NewReader(a.Stdout))
	if err := documents.Decode(new(json.RawMessage)); err != nil {
		b.Errorf("ADD: not a document: %v: %s", err, a.Stdout)
	} else if err := documents.Decode(new(json.RawMessage)); err != io.EOF {
		b.Errorf("ADD: more than one document: %s", a.Stdout)
	}
	if d := b.Succeeds(c.Del()); strings.TrimSpace(d.Stdout) != "" {
		b.Errorf("DEL: stdout: %s", d.Stdout)
	}
}

func protocolPrev(b *Bench) {
	c := b.Container()
	prev, err := netconf.ParseResult([]byte(c.Add.Prev), "")
	if err != nil {
		b.Fatal(err)
	}
	if len(prev.Interfaces) == 0 {
		b.Fatalf("the plugins before made no interface: %s", c.Add.Prev)
	}
	if len(prev.DNS.Nameservers) == 0 {
		prev.DNS.Nameservers = []string{"192.0.2.53"}
		c.Add.Prev = b.Set(c.Add.Prev, "dns", `{"nameservers":["192.0.2.53"]}`)
	}
	for _, lost := range notHandedOn(prev, b.Succeeds(c.Add).Result) {
		b.Errorf("not in the result any more: %s", lost)
	}
}

// notHandedOn lists what of the prevResult the result does not have. What a plugin of a chain may change, as a MAC, is
// not compared.
func notHandedOn(prev, now *types100.Result) (lost []string) {
	for _, i := range prev.Interfaces {
		if !slices.ContainsFunc(now.Interfaces, func(n *types100.Interface) bool { return n.Name == i.Name && n.Sandbox == i.Sandbox }) {
			lost = append(lost, fmt.Sprintf("the interface %q", i.Name))
		}
	}
	for _, ip := range prev.IPs {
		same := func(n *types100.IPConfig) bool {
			return n.Address.String() == ip.Address.String() && n.Gateway.Equal(ip.Gateway) && linkOfIP(now, n) == linkOfIP(prev, ip)
		}
		if !slices.ContainsFunc(now.IPs, same) {
			lost = append(lost, fmt.Sprintf("the address %v with the gateway %v, on %q", &ip.Address, ip.Gateway, linkOfIP(prev, ip)))
		}
	}
	for _, r := range prev.Routes {
		if !slices.ContainsFunc(now.Routes, func(n *types.Route) bool { return n.Dst.String() == r.Dst.String() && n.GW.Equal(r.GW) }) {
			lost = append(lost, fmt.Sprintf("the route to %v by %v", &r.Dst, r.GW))
		}
	}
	for _, list := range []struct {
		what      string
		prev, now []string
	}{
		{"nameserver", prev.DNS.Nameservers, now.DNS.Nameservers}, {"search domain", prev.DNS.Search, now.DNS.Search},
		{"option", prev.DNS.Options, now.DNS.Options}, {"domain", []string{prev.DNS.Domain}, []string{now.DNS.Domain, ""}},
	} {
		for _, v := range list.prev {
			if !slices.Contains(list.now, v) {
				lost = append(lost, fmt.Sprintf("the %s %q of dns", list.what, v))
			}
		}
	}
	return lost
}

// linkOfIP names the interface that an address is on; "" if it says none.
func linkOfIP(r *types100.Result, ip *types100.IPConfig) string {
	if ip.Interface == nil || *ip.Interface < 0 || *ip.Interface >= len(r.Interfaces) {
		return ""
	}
	i := r.Interfaces[*ip.Interface]
	return i.Name + " in " + i.Sandbox
}

func protocolUnknown(b *Bench) {
	c := b.Container()
	const key, value = "conform.example/new", `"kept"`
	c.Add.Prev = b.Set(c.Add.Prev, key, value)
	lists := []string{""} // the prevResult itself
	for _, list := range []string{"interfaces", "ips", "routes"} {
		var of []json.RawMessage
		if raw := b.Get(c.Add.Prev, list); raw != "" && json.Unmarshal([]byte(raw), &of) == nil && len(of) > 0 {
			of[0] = json.RawMessage(b.Set(string(of[0]), key, value))
			all, err := json.Marshal(of)
			if err != nil {
				b.Fatal(err)
			}
			c.Add.Prev = b.Set(c.Add.Prev, list, string(all))
			lists = append(lists, list)
		}
	}
	a := b.Succeeds(c.Add)
	for _, list := range lists {
		of := []json.RawMessage{json.RawMessage(a.Stdout)}
		if list != "" {
			if err := json.Unmarshal([]byte(b.Get(a.Stdout, list)), &of); err != nil {
				b.Errorf("%s: %v", list, err)
				continue
			}
		}
		if !slices.ContainsFunc(of, func(o json.RawMessage) bool { return b.Get(string(o), key) == value }) {
			b.Errorf("an unknown field of %s is not handed on: %s", strings.TrimSuffix("the prevResult, "+list, ", "), a.Stdout)
		}
	}
}
