package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) { skeltest.Main(m) }

// add is the ADD behind a plugin that has made eth0, the end of a veth pair; more are keys of the configuration.
func add(t *testing.T, more string) (*skeltest.NS, skeltest.Call) {
	ns, neighbour := skeltest.NewNS(t), skeltest.NewNS(t)
	neighbour.Run("ip", "link", "add", "p0", "type", "veth", "peer", "name", "eth0", "netns", ns.Name)
	neighbour.Run("ip", "link", "set", "p0", "addrgenmode", "none", "up")
	neighbour.Run("ip", "address", "add", "10.1.1.1/24", "dev", "p0")
	ns.Run("ip", "link", "set", "eth0", "addrgenmode", "none", "up")
	ns.Run("ip", "address", "add", "10.1.1.2/24", "dev", "eth0")
	return ns, skeltest.Call{
		Command: netconf.Add, ContainerID: ns.Name, Netns: ns.Path, IfName: "eth0",
		Config: `{"cniVersion":"1.1.0","name":"net","type":"tuning"` + more + `}`,
		Prev:   `{"cniVersion":"1.1.0","interfaces":[{"name":"eth0","sandbox":"` + ns.Path + `"}],"ips":[{"address":"10.1.1.2/24","interface":0}]}`,
	}
}

func TestPacketsFlowAndNothingIsLeft(t *testing.T) {
	ns, c := add(t, `,"mtu":1400,"mac":"02:00:00:00:00:01","promisc":true,"allmulti":true,"txQLen":77,"sysctl":{"net.ipv4.conf.IFNAME.rp_filter":"2"}`)
	before := ns.Snapshot()
	a := c.Run(t.Context(), t, plugin()).OK(t)
	ns.Ping("10.1.1.1")
	if i := a.Result.Interfaces[0]; i.Mac != "02:00:00:00:00:01" || i.Mtu != 1400 || len(a.Result.IPs) != 1 {
		t.Errorf("result %s", a.Stdout)
	}
	check := c.With(netconf.Check).WithPrev(a)
	check.Run(t.Context(), t, plugin()).OK(t)
	ns.Run("sysctl", "-qw", "net.ipv4.conf.eth0.rp_filter=1")
	check.Run(t.Context(), t, plugin()).Fails(t, netconf.CodeDifferent, "rp_filter")
	for range 2 {
		c.With(netconf.Del).Run(t.Context(), t, plugin()).OK(t) // without a prevResult
	}
	if diff := before.Diff(ns.Snapshot()); diff != "" {
		t.Errorf("left behind: %s", diff)
	}
}

// The call is harmed at each of its operations in turn: everything is as before, each time.
func TestHarmedAnywhereNothingIsLeft(t *testing.T) {
	ns, c := add(t, `,"mtu":1400,"promisc":true,"sysctl":{"net.ipv4.conf.IFNAME.rp_filter":"2"}`)
	if n := skeltest.Walk(t, plugin(), c, ns, nil); n < 5 {
		t.Errorf("an ADD of %d operations: the fault hook is not called", n)
	}
}

func TestConfigurationOfTheReferencePlugin(t *testing.T) {
	tests := []struct {
		name, conf, args string
		code             uint
		words            string // in the error, or in what ip and sysctl say
	}{
		{name: "nothing", words: "mtu 1500"},
		{name: "mtu", conf: `,"mtu":1400,"dataDir":"/run/cni/tuning"`, words: "mtu 1400"},
		{name: "promisc", conf: `,"promisc":true`, words: "PROMISC"},
		{name: "allmulti", conf: `,"allmulti":true`, words: "ALLMULTI"},
		{name: "txQLen", conf: `,"txQLen":0`, words: "UP mode DEFAULT group default \\"},
		{name: "sysctl", conf: `,"sysctl":{"net.ipv4.conf.IFNAME.log_martians":"1"}`, words: "log_martians=1"},
		{name: "sysctl with slashes", conf: `,"sysctl":{"net/ipv4/conf/IFNAME/log_martians":"1"}`, words: "log_martians=1"},
		{name: "mac", conf: `,"mac":"02-00-00-00-00-01"`, words: "02:00:00:00:00:01"},
		{name: "MAC of the arguments", conf: `,"mac":"02:00:00:00:00:01"`, args: "MAC=02:00:00:00:00:02;X=1", words: "02:00:00:00:00:02"},
		{name: "mac of args.cni", conf: `,"mac":"02:00:00:00:00:01","args":{"cni":{"mac":"02:00:00:00:00:03"}}`, args: "MAC=02:00:00:00:00:02", words: "02:00:00:00:00:03"},
		{name: "mac of the runtime", conf: `,"runtimeConfig":{"mac":"02:00:00:00:00:04"},"args":{"cni":{"mac":"02:00:00:00:00:03"}}`, args: "MAC=02:00:00:00:00:02", words: "02:00:00:00:00:04"},
		{name: "mtu of args.cni", conf: `,"mtu":1400,"args":{"cni":{"mtu":1300,"labels":[]}}`, words: "mtu 1300"},
		{name: "sysctl of args.cni", conf: `,"sysctl":{"net.ipv4.conf.IFNAME.log_martians":"0"},"args":{"cni":{"sysctl":{"net.ipv4.conf.IFNAME.log_martians":"1"}}}`, words: "log_martians=1"},

		{name: "outside net", conf: `,"sysctl":{"kernel.hostname":"x"}`, code: netconf.CodeInvalidNetworkConfig, words: "kernel.hostname"},
		{name: "up and out", conf: `,"sysctl":{"net/ipv4/../../kernel/hostname":"x"}`, code: netconf.CodeInvalidNetworkConfig, words: "hostname"},
		{name: "one name twice", conf: `,"sysctl":{"net.core.somaxconn":"1","net/core/somaxconn":"2"}`, code: netconf.CodeInvalidNetworkConfig, words: "twice"},
		{name: "one key twice", conf: `,"sysctl":{"net.ipv4.conf.IFNAME.log_martians":"0","net.ipv4.conf.IFNAME.log_martians":"1"}`, words: "log_martians=1"},
		{name: "sysctl of args.cni alone", conf: `,"args":{"cni":{"sysctl":{"net.ipv4.conf.IFNAME.log_martians":"1"}}}`, words: "log_martians=1"},
		{name: "a number", conf: `,"sysctl":{"net.core.somaxconn":500}`, code: netconf.CodeDecodingFailure, words: "sysctl.net.core.somaxconn"},
		{name: "two mistakes", conf: `,"mtu":"x","promisc":1`, code: netconf.CodeDecodingFailure, words: "promisc"},
		{name: "small mtu", conf: `,"mtu":10`, code: netconf.CodeInvalidNetworkConfig, words: "mtu 10"},
		{name: "wrong in args.cni", conf: `,"args":{"cni":{"promisc":"yes"}}`, code: netconf.CodeDecodingFailure, words: "args.cni"},
		{name: "multicast mac", conf: `,"runtimeConfig":{"mac":"01:00:00:00:00:04"}`, code: netconf.CodeInvalidNetworkConfig, words: "multicast"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			ns, c := add(t, test.conf)
			c.Args = test.args
			before := ns.Snapshot()
			a := c.Run(t.Context(), t, plugin())
			if test.code != 0 {
				a.Fails(t, test.code, test.words)
			} else if a.OK(t); !strings.Contains(look(ns), test.words) {
				t.Errorf("no %q in %s", test.words, look(ns))
			}
			c.With(netconf.Del).Run(t.Context(), t, plugin()).OK(t)
			if diff := before.Diff(ns.Snapshot()); diff != "" {
				t.Errorf("left behind: %s", diff)
			}
		})
	}
}

// An attachment that the reference plugin has made before an upgrade: its file in dataDir says how the interface was. What ours
// has written down goes before it.
func TestDelGivesBackWhatTheReferenceHasWrittenDown(t *testing.T) {
	const changed = "ip link set eth0 address 02:00:00:00:00:0a mtu 1300 promisc on allmulticast on txqueuelen 77"
	const was = `{
 "mac": "02:00:00:00:00:0b",
 "promisc": false,
 "mtu": 1450,
 "allmulti": false,
 "txQLen": 500
}`
	for name, test := range map[string]struct {
		dir, file string
		before    func(ns *skeltest.NS, c *skeltest.Call)
		words     string // what ip says then
		warns     bool
		stays     bool // the file
	}{
		"all":          {file: was, words: "mtu 1450 qlen 500 link/ether 02:00:00:00:00:0b"},
		"default":      {dir: "/run/cni/tuning", file: was, words: "mtu 1450 qlen 500 link/ether 02:00:00:00:00:0b"},
		"mtu alone":    {file: `{"mtu":1450}`, words: "PROMISC mtu 1450 qlen 77 link/ether 02:00:00:00:00:0a"},
		"garbage":      {file: `{"mtu":`, words: "mtu 1300", warns: true},
		"below 1280":   {file: `{"mtu":1200}`, words: "mtu 1200"},
		"impossible":   {file: `{"mtu":70000}`, words: "mtu 1300", warns: true},
		"no interface": {file: was, before: func(ns *skeltest.NS, _ *skeltest.Call) { ns.Run("ip", "link", "set", "eth0", "name", "eth7") }, words: "mtu 1300"},
		"no namespace": {file: was, before: func(_ *skeltest.NS, c *skeltest.Call) { c.Netns = "" }, words: "mtu 1300"},
		"made by ours": {file: was, before: func(ns *skeltest.NS, c *skeltest.Call) { c.With(netconf.Add).Run(t.Context(), t, plugin()).OK(t) }, words: "mtu 1300", stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			dir, more := test.dir, ""
			if dir == "" {
				dir = t.TempDir()
				more = `,"dataDir":"` + dir + `"`
			}
			ns, c := add(t, more+`,"mtu":1400`)
			ns.Run("sh", "-ec", changed)
			file := filepath.Join(dir, c.ContainerID+"_eth0.json")
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(test.file), 0o600); err != nil {
				t.Fatal(err)
			}
			if test.before != nil {
				test.before(ns, &c)
			}
			a := c.With(netconf.Del).Run(t.Context(), t, plugin()).OK(t)
			show := ns.Run("ip", "-o", "link", "show", "type", "veth")
			for word := range strings.FieldsSeq(test.words) {
				if !strings.Contains(strings.NewReplacer(">", " ", ",", " ").Replace(show), " "+word) {
					t.Errorf("no %q in %s", word, show)
				}
			}
			if (a.Stderr != "") != test.warns {
				t.Errorf("stderr %s", a.Stderr)
			}
			if _, err := os.Stat(file); (err == nil) != test.stays {
				t.Errorf("the file: %v", err)
			}
			c.With(netconf.Del).Run(t.Context(), t, plugin()).OK(t)
		})
	}
}

// What is wrong in itself is found before anything is looked for: so `tuning validate` finds it too.
func TestWrongValuesAreFoundFirst(t *testing.T) {
	t.Parallel()
	for conf, words := range map[string]string{
		`"mtu":10`: "mtu 10", `"txQLen":-1`: "txqueuelen -1", `"sysctl":{"kernel.hostname":"x","net..x":""}`: "kernel.hostname",
	} {
		c := skeltest.Call{Command: netconf.Add, ContainerID: "c", Netns: "/nosuch", IfName: "eth0", Config: `{"cniVersion":"1.1.0","name":"net","type":"tuning",` + conf + `}`,
			Prev: `{"cniVersion":"1.1.0","interfaces":[{"name":"eth0","sandbox":"/nosuch"}]}`}
		c.Run(t.Context(), t, plugin()).Fails(t, netconf.CodeInvalidNetworkConfig, words)
	}
}

func look(ns *skeltest.NS) string {
	return ns.Run("sh", "-c", "ip -o link show eth0; echo log_martians=$(sysctl -n net.ipv4.conf.eth0.log_martians)")
}

// The allow-list of the reference plugin: its place, and its lines, are kept.
func TestAllowList(t *testing.T) {
	ns, c := add(t, `,"sysctl":{"net.ipv4.conf.IFNAME.log_martians":"1"},"args":{"cni":{"sysctl":{"net.ipv4.conf.IFNAME.rp_filter":"2"}}}`)
	write := func(text string) {
		if err := os.WriteFile(allowList, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount("tmpfs", "/etc", "tmpfs", 0, ""); err != nil { // in the tests' own mount namespace
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount("/etc", unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	if err := os.MkdirAll(filepath.Dir(allowList), 0o755); err != nil {
		t.Fatal(err)
	}
	before := ns.Snapshot()
	write("^net.ipv4.conf.IFNAME.log_martians$\n")
	c.Run(t.Context(), t, plugin()).Fails(t, netconf.CodeInvalidNetworkConfig, "net.ipv4.conf.IFNAME.rp_filter", "log_martians$")
	write("(?i)^net")
	c.Run(t.Context(), t, plugin()).Fails(t, netconf.CodeInvalidNetworkConfig, allowList)
	c.With(netconf.Del).Run(t.Context(), t, plugin()).OK(t) // whatever stands there
	if diff := before.Diff(ns.Snapshot()); diff != "" {
		t.Errorf("changed: %s", diff)
	}
	write(`^net\.ipv4\.conf\.IFNAME\.[a-z_]*$`)
	a := c.Run(t.Context(), t, plugin()).OK(t)
	write("")
	c.With(netconf.Check).WithPrev(a).Run(t.Context(), t, plugin()).Fails(t, netconf.CodeInvalidNetworkConfig, "allow-list")
	c.With(netconf.Del).Run(t.Context(), t, plugin()).OK(t)
}

// The place in an error about args.cni is that in the configuration, not that in args.cni.
func TestErrorInArgsNamesItsPlace(t *testing.T) {
	t.Parallel()
	c := skeltest.Call{
		Command: netconf.Add, ContainerID: "c", Netns: "/run/netns/c", IfName: "eth0",
		Config: "{\"cniVersion\":\"1.1.0\",\"name\":\"net\",\"type\":\"tuning\",\n\"args\":{\"cni\":{\n \"txQLen\":\"x\"}}}",
	}
	c.Run(t.Context(), t, plugin()).Fails(t, netconf.CodeDecodingFailure, "args.cni.txQLen (line 3, column 11): expected an integer")
}
