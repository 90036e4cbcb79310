//go:build linux

package plugins_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/internal/testbin"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// conformed are the programs, each with what its own tests configure.
var conformed = []struct {
	name, keys, parent string
	kind               skel.Kind
	single, stateless  bool
	setup              func(*skeltest.Bench)
	except             string // the ID of a requirement that it is not held to
}{
	{name: "macvlan", keys: `"master":"p0","ipam":` + hostLocal, parent: "p0"},
	{name: "bridge", keys: `"bridge":"br0","isGateway":true,"ipam":` + hostLocal, parent: "br0"},
	{name: "ptp", keys: `"mtu":1400,"ipam":` + hostLocal, parent: "p0"},
	{name: "ipvlan", keys: `"master":"p0","mtu":1400,"ipam":` + hostLocal, parent: "p0", setup: needed},
	{name: "vlan", keys: `"master":"p0","vlanId":7,"ipam":` + hostLocal, parent: "p0", single: true, setup: needed},
	{name: "dummy", keys: `"ipam":` + hostLocal, setup: needed},
	{name: "host-device", keys: `"device":"p0","ipam":` + hostLocal, parent: "p0"},
	{name: "tap", keys: `"mtu":1400,"owner":107,"ipam":` + hostLocal, parent: "p0"},
	{name: "host-local", kind: skel.IPAM, keys: `"ipam":{"type":"host-local","routes":[{"dst":"0.0.0.0/0"}],
		"ranges":[[{"subnet":"10.1.0.0/24"}],[{"subnet":"fd00:1::/64"}]]}`},
	{name: "static", kind: skel.IPAM, stateless: true, keys: `"ipam":{"type":"static","routes":[{"dst":"0.0.0.0/0"}],
		"addresses":[{"address":"10.1.0.5/24","gateway":"10.1.0.1"},{"address":"fd00:1::5/64","gateway":"fd00:1::1"}]}`},
	// The ports of the one configuration are taken by the first attachment: the plugin's own tests give each its own.
	{name: "portmap", kind: skel.Chained, single: true, keys: `"runtimeConfig":{"portMappings":[
		{"hostPort":8080,"containerPort":80,"protocol":"tcp"},{"hostPort":5353,"containerPort":53,"protocol":"udp"}]}`},
	{name: "tuning", kind: skel.Chained, keys: `"mtu":1400,"mac":"02:00:00:00:00:07","promisc":true,"allmulti":true,"txQLen":77,
		"sysctl":{"net.ipv4.conf.IFNAME.rp_filter":"2"}`},
	{name: "sbr", kind: skel.Chained},
	{name: "vrf", kind: skel.Chained, keys: `"vrfname":"red"`, setup: needed},
	{name: "loopback", kind: skel.Chained, except: "protocol/result"}, // it wants a list in 0.1.0 too, which has none
	{name: "bandwidth", kind: skel.Chained, keys: `"ingressRate":100000000,"egressRate":"50M","egressBurst":400000,
		"unshapedSubnets":["10.9.0.0/16","fd09::/16"]`},
}

// asProgram are the requirements that a program may break although the plugin does not in the process of its own
// tests, which hold it to all of them (conform_test.go in its folder): streams, environment, signals and exit, locks
// between processes, kills, the reference host-local as a delegate; and of what is left those in which one process
// finds what another has made. What the others add (what a configuration or a list must be like, what CHECK finds,
// odd DELs) is decided below the same skel.Plugin.Run, with nothing kept in memory between two calls.
var asProgram = regexp.MustCompile(`^(add|protocol|env|stdin|stdout|status|ipam|concurrency|kill)/` +
	`|^(del/(all|twice|no-netns|never-added)|check/(fresh|after-del)|gc/(live|stale|ipam))$`)

// soak is the environment variable that asks for all requirements, whatever its value: 105 s of CPU in place of 75.
const soak = "CNIKIT_SOAK"

// The programs conform, as anybody's would have to.
func TestProgramsConform(t *testing.T) {
	skeltest.NeedRoot(t)
	path := []string{testbin.Reference(t, testbin.HostLocal)}
	testbin.Plugin(t, "ptp") // what the chained ones follow
	for _, p := range conformed {
		t.Run(p.name, func(t *testing.T) {
			var only *regexp.Regexp // all, where no other test judges the plugin
			_, all := os.LookupEnv(soak)
			if _, err := os.Stat(filepath.Join(p.name, "conform_test.go")); err == nil && !all {
				only = asProgram
			}
			if testbin.Guest() {
				if p.setup == nil {
					t.Skip("thousands of processes: many minutes in an emulated guest")
				}
				only = regexp.MustCompile(`^del/all$`) // so that what the machine's kernel may lack is judged somewhere
			}
			if p.except != "" {
				only = otherThan(only, p.except)
			}
			conf := fmt.Sprintf(`"type":%q`, p.name)
			if p.keys != "" {
				conf += "," + p.keys
			}
			const head = `{"cniVersion":"1.1.0","name":"net",`
			if p.kind == skel.Chained {
				conf = head + `"plugins":[{"type":"ptp","ipam":` + routed + `},{` + conf + `}]}`
			} else {
				conf = head + conf + `}`
			}
			target := skeltest.Target{
				Plugin: skeltest.Binary(testbin.Plugin(t, p.name)), Kind: p.kind, Path: path, Parent: p.parent,
				Config: conf, Single: p.single, Stateless: p.stateless, Setup: p.setup, Only: only,
			}
			testbin.Built(t)
			skeltest.Conform(t, target)
		})
	}
}

// otherThan are the requirements of only, nil for all, but one.
func otherThan(only *regexp.Regexp, except string) *regexp.Regexp {
	var ids []string
	for _, r := range skeltest.Requirements() {
		if r.ID != except && (only == nil || only.MatchString(r.ID)) {
			ids = append(ids, regexp.QuoteMeta(r.ID))
		}
	}
	return regexp.MustCompile("^(" + strings.Join(ids, "|") + ")$")
}

// needed skips the plugin on a kernel that lacks its kind of link: code 103 alone says so.
func needed(b *skeltest.Bench) {
	c := b.Container()
	if a := b.Run(c.Add); a.Exit != 0 && a.Err.Code == netconf.CodeNotSupported {
		b.Skip(a.Err.Msg)
	}
	b.Succeeds(c.Del())
}

// routed is hostLocal with a route, which a chained plugin may meet.
const routed = `{"type":"host-local","ranges":[[{"subnet":"10.1.0.0/24"}],[{"subnet":"fd00:1::/64"}]],"routes":[{"dst":"0.0.0.0/0"}]}`
