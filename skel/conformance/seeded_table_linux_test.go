package main

// seed is a fault in a copy of an example: in one file an old text, which is there once, becomes a new one.
type seed struct {
	fault    string
	plugin   string
	ids      string // the requirements that must find it
	file     string
	old, new string
	imports  string // a package that the new text needs besides
	quick    bool   // tried in every run
}

// seeded are the faults, by the group of requirements that finds them first. (F1) and the like are their numbers among
// those that hand-written plugins are known for.
var seeded = []seed{
	{fault: "F1 a failed ADD is not rolled back", plugin: "macvlan", ids: "ipam/fails ipam/nonsense add/terminated", quick: true,
		file: "skel/step.go", old: `return rolledBack(err, s[:made].rollback(ctx, req))`, new: `return err`},
	{fault: "F1 the step that failed is not rolled back", plugin: "macvlan", ids: "ipam/fails",
		file: "skel/step.go", old: `				made++`, new: `				made += 0`},
	{fault: "F3 two documents on stdout", plugin: "macvlan", ids: "protocol/stdout",
		file: "skel/run.go", old: `o.to.Write(document)`, new: `o.to.Write(append(document, document...))`},
	{fault: "errors without a version", plugin: "macvlan", ids: "protocol/error-version",
		file: "skel/run.go", old: "`json:\"cniVersion\"`\n\t\tCode ", new: "`json:\"-\"`\n\t\tCode "},
	{fault: "F4 DEL needs a prevResult", plugin: "macvlan", ids: "del/all del/twice",
		file: "ipam/step.go", old: `	own, err := inKnownVersion(req.As(netconf.Del))`,
		new: "	if req.Prev == nil {\n\t\treturn netconf.Errorf(7, \"no prevResult\")\n\t}\n\town, err := inKnownVersion(req.As(netconf.Del))"},
	{fault: "F4 what is gone is an error", plugin: "macvlan", ids: "del/stale-netns",
		file: "link/errors.go", old: `if errors.Is(err, errNoNamespace) || errors.As(err, &notFound) {`, new: `if errors.As(err, &notFound) {`},
	{fault: "F5 DEL looks the parent up", plugin: "macvlan", ids: "del/parent-gone",
		file: "link/macvlan.go", old: `	return p.removeInside(ctx, p.container)`,
		new: "	if _, err := m.Parent.find(p.host); err != nil {\n\t\treturn err\n\t}\n\treturn p.removeInside(ctx, p.container)"},
	{fault: "F8 a typo is not mentioned", plugin: "macvlan", ids: "config/typo",
		file: "netconf/decode.go", old: `d.warnf(m.at, "unknown key %.256q is ignored%s", key, hint)`, new: `_ = hint`},
	{fault: "F9 ADD makes room for itself", plugin: "macvlan", ids: "add/twice add/taken-name",
		file: "link/step.go", old: `		return nil, taken(req.IfName, there)`,
		new: "		if err := p.container.Handle().LinkDel(there); err != nil {\n\t\t\treturn nil, taken(req.IfName, there)\n\t\t}"},
	{fault: "F9 DEL goes by the name", plugin: "macvlan", ids: "del/foreign-link",
		file: "link/kind.go", old: `	if ours, known := c.mark(l); known || c.marked {`,
		new: "	if !c.marked {\n\t\treturn true\n\t}\n\tif ours, known := c.mark(l); known || c.marked {"},
	{fault: "F10 DEL fails in the host's namespace", plugin: "macvlan", ids: "del/own-netns",
		file: "skel/plugin.go", old: "		req.Netns = \"\"\n\t\treq.Warn(\"CNI_NETNS is the plugin's own", new: "		if own {\n\t\t\treturn netconf.Errorf(4, \"own namespace\")\n\t\t}\n\t\treq.Warn(\"CNI_NETNS is the plugin's own"},

	{fault: "F6 CHECK takes any gateway", plugin: "macvlan", ids: "check/gateway", quick: true,
		file: "link/addresses_verify_linux.go", old: `case k.Gateway != r.Gateway:`, new: `case k.Gateway.IsValid() != r.Gateway.IsValid():`},
	{fault: "F6 CHECK wants a subnet", plugin: "macvlan", ids: "check/host-prefix",
		file: "link/addresses_verify_linux.go", old: `		case !ok && have.has(want.Addr()):`,
		new: "		case want.IsSingleIP():\n\t\t\terrs = append(errs, different(name, what, \"a subnet\", want))\n\t\tcase !ok && have.has(want.Addr()):"},
	{fault: "CHECK does not look at addresses", plugin: "macvlan", ids: "check/address",
		file: "link/addresses_verify_linux.go", old: `errs := p.verifyAddresses(n, l)`, new: `var errs []error`},
	{fault: "CHECK does not look at the prefix length", plugin: "bridge", ids: "check/address",
		file: "link/addresses_verify_linux.go", old: `		case !ok && have.has(want.Addr()):`,
		new: "		case !ok && have.has(want.Addr()):\n\t\t\tcontinue\n\t\tcase !ok && have.has(want.Addr()):"},
	{fault: "CHECK does not miss a route", plugin: "macvlan", ids: "check/route",
		file: "link/addresses_verify_linux.go", old: `return different(l.Attrs().Name, what, "there", "not there")`, new: `return nil`},
	{fault: "CHECK does not look at metrics", plugin: "macvlan", ids: "check/metrics",
		file: "link/addresses_verify_linux.go", old: `case k.metric() != r.metric():`, new: `case k.metric() < 0:`},
	{fault: "CHECK does not look at a route's MTU", plugin: "macvlan", ids: "check/metrics",
		file: "link/addresses_verify_linux.go", old: `case k.MTU != r.MTU:`, new: `case k.MTU < 0:`},
	{fault: "CHECK does not look at the kind", plugin: "macvlan", ids: "check/kind",
		file: "link/kind.go", old: "	if l.Type() != kind {\n\t\treturn different(name, \"the kind\", kind, l.Type())", new: "	if l.Type() != kind {\n\t\treturn nil"},
	{fault: "CHECK does not look at the MAC", plugin: "macvlan", ids: "check/link",
		file: "link/kind.go", old: `want.Mac != "" && !sameMAC(want.Mac, a.HardwareAddr)`, new: `want.Mac == "none"`},
	{fault: "CHECK does not look at the MTU", plugin: "bridge", ids: "check/link",
		file: "link/kind.go", old: `want.Mtu != 0 && want.Mtu != a.MTU`, new: `want.Mtu < 0`},
	{fault: "CHECK looks at nothing", plugin: "macvlan", ids: "check/gone check/after-del check/ipam check/other-prev-result", quick: true,
		file: "skel/step.go", old: `errs = append(errs, guard(ctx, req, step, Step.Check))`, new: `continue`},
	{fault: "CHECK wants nothing foreign", plugin: "macvlan", ids: "check/foreign",
		file: "link/addresses_verify_linux.go", old: `	for _, want := range p.Addresses {`,
		new: "	if len(have) > len(p.Addresses)+1 {\n\t\treturn []error{different(name, \"the addresses\", p.Addresses, have)}\n\t}\n\tfor _, want := range p.Addresses {"},
	{fault: "CHECK does not wait", plugin: "macvlan", ids: "check/fresh",
		file: "skel/step.go", old: `errs = append(errs, guard(ctx, req, step, Step.Check))`, new: `errs = append(errs, netconf.Errorf(11, "not yet"))`},
	{fault: "CHECK goes without a prevResult", plugin: "macvlan", ids: "check/no-prev-result",
		file: "skel/plugin.go", imports: "os", old: `	if req.Prev == nil && (req.Command == netconf.Check ||`,
		new: "	if req.Prev == nil && req.Command == netconf.Check {\n\t\tos.Exit(0)\n\t}\n\tif req.Prev == nil && (req.Command == netconf.Check ||"},
	{fault: "versions are not looked at", plugin: "macvlan", ids: "check/old-version gc/old-version status/old-version",
		file: "netconf/parse.go", old: `if since == oldest || r.Network.Is(since) {`, new: `if since != "" {`},

	{fault: "GC is not forwarded", plugin: "macvlan", ids: "gc/ipam gc/stale gc/empty-list gc/both-keys", quick: true,
		file: "ipam/step.go", old: `	own, err := withWholeList(req.As(netconf.GC))`,
		new: "	if req.Command != \"\" {\n\t\treturn nil\n\t}\n\town, err := withWholeList(req.As(netconf.GC))"},
	{fault: "GC forwards the old key as it came", plugin: "macvlan", ids: "gc/old-key",
		file: "ipam/step.go", old: `newer.List != nil && slices.Equal(newer.List, lives)`, new: `(newer.List == nil || slices.Equal(newer.List, lives))`},
	{fault: "GC takes no list for an empty one", plugin: "macvlan", ids: "gc/no-list",
		file: "netconf/parse.go", imports: "github.com/containernetworking/cni/pkg/types", old: `	case r.Network.ValidAttachments == nil:`,
		new: "	case r.Network.ValidAttachments == nil && r.Command == GC:\n\t\tr.Network.ValidAttachments = []types.GCAttachment{}\n\t\treturn nil\n\tcase r.Network.ValidAttachments == nil:"},
	{fault: "GC passes over entries without an ID", plugin: "macvlan", ids: "gc/partial-list",
		file: "netconf/parse.go", old: `if err := CheckName(a.ContainerID); err != nil {`, new: `if err := CheckName(a.ContainerID); err != nil && a.ContainerID != "" {`},
	{fault: "GC takes a list that is none for an empty one", plugin: "bridge", ids: "gc/bad-list",
		file: "netconf/network.go", old: `errs = d.failures()`, new: `n.ValidAttachments = append([]types.GCAttachment{}, n.ValidAttachments...)`},
	{fault: "GC takes what lives", plugin: "bridge", ids: "gc/live",
		file: "link/step.go", old: `lab.in(network) && !alive(lab, network, valid)`, new: `lab.in(network) && (alive(lab, network, valid) || !alive(lab, network, valid))`},
	{fault: "GC fails where nothing was", plugin: "macvlan", ids: "gc/empty-host",
		file: "skel/lock.go", old: `	if req.Command == netconf.GC ||`, new: "	if _, err := os.Stat(\"/var/lib/cni/networks\"); err != nil && req.Command == netconf.GC {\n\t\treturn err\n\t}\n\tif req.Command == netconf.GC ||"},

	{fault: "F7 STATUS is not forwarded", plugin: "macvlan", ids: "status/ipam status/delegate-missing",
		file: "ipam/step.go", old: `return s.forward(ctx, req.As(netconf.Status))`, new: `return nil`},
	{fault: "STATUS does not look for the parent", plugin: "macvlan", ids: "status/parent-gone",
		file: "link/macvlan.go", old: `return m.Parent.status(req, nil)`, new: `return nil`},
	{fault: "STATUS makes what it looks for", plugin: "macvlan", ids: "status/ready",
		file: "link/macvlan.go", imports: "os", old: `return m.Parent.status(req, nil)`,
		new: "if err := os.WriteFile(\"/run/cni/probe\", []byte{1}, 0o600); err != nil {\n\t\treturn err\n\t}\n\treturn m.Parent.status(req, nil)"},

	{fault: "an answer without an address is believed", plugin: "macvlan", ids: "ipam/nonsense",
		file: "ipam/answer.go", old: `if len(result.IPs) == 0 {`, new: `if result == nil {`},
	{fault: "F5 DEL stops at the first error", plugin: "macvlan", ids: "ipam/del-fails",
		file: "skel/step.go", old: "		cancel()\n", new: "		cancel()\n\t\tif errs[len(errs)-1] != nil {\n\t\t\tbreak\n\t\t}\n"},
	{fault: "DEL forgives the IPAM plugin", plugin: "bridge", ids: "ipam/del-fails",
		file: "ipam/step.go", old: "	return s.forward(ctx, own)\n}\n\n// inKnownVersion", new: "	_ = s.forward(ctx, own)\n\treturn nil\n}\n\n// inKnownVersion"},

	{fault: "names on the host are too few", plugin: "bridge", ids: "concurrency/fifty",
		file: "link/owner.go", old: `o.sum(role)>>20)`, new: `o.sum(role)>>59)`},
	{fault: "one call beside the other", plugin: "macvlan", ids: "concurrency/add-del",
		file: "skel/lock.go", old: `	unlock, err := lock(ctx, key.name)`, new: "	if key.name != \"\" {\n\t\treturn f(ctx)\n\t}\n\tunlock, err := lock(ctx, key.name)"},

	{fault: "DEL takes only what is finished", plugin: "macvlan", ids: "kill/add kill/add-all", quick: true,
		file: "link/kind.go", old: `	return remove(ctx, container, l)`, new: "	if l.Attrs().Flags&net.FlagUp == 0 {\n\t\treturn nil\n\t}\n\treturn remove(ctx, container, l)"},
	{fault: "DEL goes on only where its link is", plugin: "macvlan", ids: "kill/del",
		file: "skel/step.go", old: `	return s.backwards(ctx, req, func(Step) verb { return Step.Del })`, imports: "os/exec",
		new: "	if exec.Command(\"nsenter\", \"--net=\"+req.Netns, \"ip\", \"link\", \"show\", req.IfName).Run() != nil {\n\t\treturn nil\n\t}\n" +
			"\tif err := guard(ctx, req, s[0], Step.Del); err != nil {\n\t\treturn err\n\t}\n\treturn s.backwards(ctx, req, func(Step) verb { return Step.Del })"},
	{fault: "F11 a delegate outlives its caller", plugin: "macvlan", ids: "kill/orphan",
		file: "delegate/exec_linux.go", old: `, Pdeathsig: syscall.SIGKILL`, new: ``},
}
