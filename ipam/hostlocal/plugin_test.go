package hostlocal_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/ipam"
	"github.com/cnikit/cnikit/ipam/hostlocal"
	"github.com/cnikit/cnikit/netconf"
)

// What a range gives until it is used up, each address once.
func TestAddressesOfARange(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ keys, want string }{
		{`"subnet":"10.9.0.0/30"`, "10.9.0.2"},
		{`"subnet":"10.9.0.0/29","gateway":"10.9.0.4"`, "10.9.0.1 10.9.0.2 10.9.0.3 10.9.0.5 10.9.0.6"},
		{`"subnet":"10.9.0.0/24","rangeStart":"10.9.0.10","rangeEnd":"10.9.0.12","gateway":"10.9.0.11"`, "10.9.0.10 10.9.0.12"},
		{`"subnet":"10.9.0.0/24","rangeStart":"::ffff:10.9.0.10","rangeEnd":"::ffff:10.9.0.12","gateway":"::ffff:10.9.0.11"`, "10.9.0.10 10.9.0.12"},
		{`"subnet":"10.9.0.0/24","rangeStart":"10.9.0.0","rangeEnd":"10.9.0.3"`, "10.9.0.2 10.9.0.3"},
		{`"subnet":"10.9.0.0/24","rangeStart":"10.9.0.253","rangeEnd":"10.9.0.255"`, "10.9.0.253 10.9.0.254"},
		{`"subnet":"10.9.0.0/23","rangeStart":"10.9.0.254","rangeEnd":"10.9.1.1"`, "10.9.0.254 10.9.0.255 10.9.1.0 10.9.1.1"},
		{`"subnet":"fd09::/126"`, "fd09::2 fd09::3"},
		{`"subnet":"fd09::/64","rangeStart":"fd09::","rangeEnd":"fd09::2"`, "fd09::2"},
		{`"ranges":[[{"subnet":"10.9.0.0/30"},{"subnet":"10.8.0.0/30"}]]`, "10.9.0.2 10.8.0.2"},
		// A range around the gateway of the other one.
		{`"ranges":[[{"subnet":"10.9.0.0/24","rangeEnd":"10.9.0.2","gateway":"10.9.0.11"},{"subnet":"10.9.0.0/24","rangeStart":"10.9.0.11","rangeEnd":"10.9.0.12"}]]`, "10.9.0.2 10.9.0.12"},
	} {
		t.Run(c.keys, func(t *testing.T) {
			t.Parallel()
			in := call{verb: netconf.Add, config: config(c.keys), dir: t.TempDir()}
			var got []string
			for range strings.Fields(c.want) {
				in.id = fmt.Sprintf("c%d", len(got))
				got = append(got, in.add(t))
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("got %q: expected %q", got, c.want)
			}
			in.id = "more"
			in.fails(t, netconf.Add, netconf.CodeExhausted, "no address is free in")
			if _, err := in.serve(t); !errors.Is(err, hostlocal.ErrExhausted) {
				t.Errorf("%v is no ErrExhausted", err)
			}
			if n := len(store(t, in.dir)); n != len(got) {
				t.Errorf("%d leases", n)
			}
			in.fails(t, netconf.Status, netconf.CodePluginNotAvailable, "no address is free in")
			in.id = "c0"
			in.ok(t, netconf.Del)
			in.ok(t, netconf.Status)
			if in.id = "new"; in.add(t) != got[0] {
				t.Error("not the address that was freed")
			}
		})
	}
}

// Ranges and requests that make no sense are refused with their place, and nothing is written.
func TestRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ keys, words string }{
		{`"subnet":"10.9.0.0/31"`, "ipam.subnet (line 1, column"},
		{`"subnet":"10.9.0.4/32"`, "10.9.0.4/32 is too small"},
		{`"subnet":"fd09::/127"`, "too small"},
		{`"subnet":"10.9.0.1/24"`, "host part: expected 10.9.0.0/24"},
		{`"subnet":"0.0.0.0/0"`, "no network of hosts"},
		{`"subnet":"224.0.0.0/24"`, "no network of hosts"},
		{`"subnet":"10.9.0.0/24","rangeStart":"10.9.0.0","rangeEnd":"10.9.0.0"`, "no address to give"},
		{`"subnet":"10.9.0.0/24","rangeStart":"10.9.0.255","rangeEnd":"10.9.0.255"`, "no address to give"},
		{`"subnet":"10.9.0.0/24","rangeStart":"10.9.0.1","rangeEnd":"10.9.0.1"`, "no address to give"},
		{`"subnet":"10.9.0.0/24","rangeStart":"10.9.0.9","rangeEnd":"10.9.0.8"`, "ipam.rangeEnd (line 1, column"},
		{`"subnet":"10.9.0.0/24","rangeStart":"10.9.1.9"`, "ipam.rangeStart (line 1, column"},
		{`"subnet":"10.9.0.0/24","gateway":"fd00::1"`, "ipam.gateway (line 1, column"},
		{`"rangeStart":"10.9.0.9"`, "ipam.subnet"},
		{`"ranges":[]`, "ipam.ranges"},
		{`"ranges":[[{"subnet":"10.9.0.0/24"}],[]]`, "ipam.ranges[1]"},
		{`"ranges":[[{"subnet":"10.9.0.0/24"},{"subnet":"fd00::/64"}]]`, "ipam.ranges[0][1].subnet (line 1, column"},
		{`"ranges":[[{"subnet":"10.9.0.0/24"}],[{"subnet":"10.0.0.0/8"}]]`, "ipam.ranges[0][0] (line 1, column"},
		{`"ranges":[[{"subnet":"10.9.0.0/24"}],[{"subnet":"10.9.0.0/28"}],[{"subnet":"10.9.0.64/28"}]]`, "10.9.0.65-10.9.0.78 overlaps with ipam.ranges[0][0]"},
		{`"subnet":"10.9.0.0/24","ranges":[[{"subnet":"10.9.0.128/25"}]]`, "overlaps with ipam, 10.9.0.1-10.9.0.254"},
		{`"subnet":"10.9.0.0/24","routes":[{"dst":"10.0.0.0/8","gw":"fd00::1"}]`, "ipam.routes[0].gw"},
		{`"subnet":"10.9.0.0/24","routes":[null]`, "ipam.routes[0]"},
		{`"subnet":"10.9.0.0/24","resolvConf":"/none/resolv.conf"`, "ipam.resolvConf"},
		{`"subnet":"10.9.0.0/24"},"runtimeConfig":{"ips":["10.9.1.7"]`, "10.9.1.7 is asked for, and lies in none"},
		{`"subnet":"10.9.0.0/24"},"runtimeConfig":{"ips":["10.9.0.1"]`, "10.9.0.1 is asked for, and is a gateway"},
		{`"subnet":"10.9.0.0/24"},"runtimeConfig":{"ips":["10.9.0.0"]`, "10.9.0.0 is asked for, and lies in none"},
		{`"subnet":"10.9.0.0/24"},"runtimeConfig":{"ips":["10.9.0.7","10.9.0.8"]`, "10.9.0.8 is asked for beside another"},
		{`"subnet":"10.9.0.0/24"},"runtimeConfig":{"ipRanges":[[{"subnet":"10.9.0.0/33"}]]`, "runtimeConfig.ipRanges[0][0].subnet"},
		{`"subnet":"10.9.0.0/24"},"runtimeConfig":{"ipRanges":[[{"subnet":"10.9.0.0/16"}]]`, "overlaps with runtimeConfig.ipRanges[0][0]"},
	} {
		t.Run(c.keys, func(t *testing.T) {
			t.Parallel()
			in := call{config: config(c.keys), dir: t.TempDir()}
			in.fails(t, netconf.Add, netconf.CodeInvalidNetworkConfig, c.words)
			if files, err := os.ReadDir(in.dir); err != nil || len(files) > 0 {
				t.Errorf("%v, written %v", err, files)
			}
			write(t, filepath.Join(in.dir, "net", "10.9.0.7"), "c1\r\neth0")
			in.ok(t, netconf.Del) // whatever the ranges are
			has(t, in.dir)
		})
	}
}

// In a plugin, that is known before a link is made; and the unknown key of a section is told once.
func TestRefusedBeforeAnyWork(t *testing.T) {
	t.Parallel()
	log := &strings.Builder{}
	req := call{verb: netconf.Add, dir: t.TempDir(), config: config(`"subnet":"10.9.0.0/31","gateway":7,"rangestart":"10.9.0.1"`), log: log}.request(t)
	ipam.FromConfig(req, hostlocal.InProcess())
	if err := req.Rejected(); err == nil || !strings.Contains(err.Error(), "ipam.gateway (line 1, column ") {
		t.Errorf("%v", err)
	}
	in := call{verb: netconf.Add, dir: t.TempDir(), config: config(`"subnet":"10.9.0.0/24","subnets":1`), log: log}
	req = in.request(t)
	step := ipam.FromConfig(req, hostlocal.InProcess())
	if err := req.Rejected(); err != nil || strings.Count(log.String(), "ipam.subnets") != 1 {
		t.Errorf("%v, warned %q", err, log)
	}
	if err := step.Add(t.Context(), req); err != nil || strings.Count(log.String(), "ipam.subnets") != 1 {
		t.Errorf("%v, warned %q", err, log)
	}
}

// VERSION, which asks whether a configuration's version is served, does no work.
func TestVersion(t *testing.T) {
	t.Parallel()
	in := call{verb: netconf.Add, dir: t.TempDir()}
	req := in.request(t)
	req.Command = netconf.Version
	if err := hostlocal.InProcess().Do(t.Context(), req); err != nil {
		t.Error(err)
	}
	req.Network.CNIVersion = "9.0.0"
	for _, verb := range []netconf.Command{netconf.Version, netconf.Add} {
		if req.Command = verb; netconf.Code(hostlocal.InProcess().Do(t.Context(), req)) != netconf.CodeIncompatibleVersion {
			t.Errorf("%s of a version that there is not is served", verb)
		}
	}
	if files, err := os.ReadDir(in.dir); err != nil || len(files) > 0 {
		t.Errorf("%v, written %v", err, files)
	}
}

// What is asked for is given, from the set that it lies in, or refused with its name.
func TestRequested(t *testing.T) {
	t.Parallel()
	two := `"ranges":[[{"subnet":"10.0.0.0/29"}],[{"subnet":"fd00::/64"}]]`
	in := call{dir: t.TempDir(), verb: netconf.Add, config: config(two + `},"runtimeConfig":{"ips":["fd00::7","10.0.0.5/29"]`)}
	if got, err := in.serve(t); err != nil || fmt.Sprint(got) != "[10.0.0.5/29 10.0.0.1 fd00::7/64 fd00::1]" {
		t.Errorf("%v, %v", got, err)
	}
	in.id = "c2"
	in.fails(t, netconf.Add, netconf.CodeExhausted, "10.0.0.5 is asked for, and is taken")
	has(t, in.dir, "10.0.0.5 c1 eth0", "fd00::7 c1 eth0")
	in.config, in.args = config(two), "IP=10.0.0.3"
	if got, err := in.serve(t); err != nil || fmt.Sprint(got) != "[10.0.0.3/29 10.0.0.1 fd00::8/64 fd00::1]" {
		t.Errorf("%v, %v: the second set goes on after the last one", got, err)
	}
	in.id, in.args, in.config = "c3", "", config(two+`},"args":{"cni":{"ips":["fd00::7"]}`)
	in.fails(t, netconf.Add, netconf.CodeExhausted, "fd00::7 is asked for, and is taken")
	has(t, in.dir, "10.0.0.3 c2 eth0", "10.0.0.5 c1 eth0", "fd00::7 c1 eth0", "fd00::8 c2 eth0") // of the first set nothing stays
}

// An attachment has one address of a set: the second ADD changes nothing. Another interface is another attachment.
func TestSecondAdd(t *testing.T) {
	t.Parallel()
	in := call{dir: t.TempDir()}
	in.add(t)
	before := store(t, in.dir)
	in.fails(t, netconf.Add, netconf.CodeExists, "the attachment has the address 10.0.0.2")
	in.args = "IP=10.0.0.5"
	in.verb = netconf.Add
	if _, err := in.serve(t); !errors.Is(err, netconf.ErrExists) {
		t.Errorf("%v: expected ErrExists, which spares the live lease the rollback", err)
	}
	has(t, in.dir, before...)
	in.args, in.ifname = "", "net1"
	if a := in.add(t); a != "10.0.0.3" {
		t.Error(a)
	}
	in.ok(t, netconf.Del)
	has(t, in.dir, before...)
}

// GC frees exactly what is not listed; a list that says nothing frees nothing.
func TestGC(t *testing.T) {
	t.Parallel()
	const key = `"cni.dev/valid-attachments"`
	all := []string{"10.0.0.2 c1 eth0", "10.0.0.3 c1 net1", "10.0.0.4 c2 eth0", "10.0.0.5 old", "10.0.0.6 "}
	for _, c := range []struct {
		list string
		code uint
		left []string
	}{
		{key + `:[{"containerID":"c1","ifname":"eth0"}]`, 0, all[:1]},
		{key + `:[{"containerID":"c2","ifname":"eth0"},{"containerID":"old","ifname":"eth0"}]`, 0, all[2:4]},
		{key + `:[]`, 0, nil},
		{`"x":1`, 7, all},
		{key + `:null`, 7, all},
		{key + `:[{"containerID":"c1"}]`, 7, all},
		{key + `:[{"ifname":"eth0"}]`, 7, all},
	} {
		t.Run(c.list, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for _, line := range all {
				name, content, _ := strings.Cut(line, " ")
				write(t, filepath.Join(dir, "net", name), strings.Replace(content, " ", "\r\n", 1))
			}
			write(t, filepath.Join(dir, "other", "10.0.0.2"), "c9\r\neth0")
			req := call{verb: netconf.Add, dir: dir}.request(t)
			network, err := netconf.ParseNetwork([]byte(strings.Replace(string(req.Config), `"name"`, c.list+`,"name"`, 1)))
			if err != nil {
				t.Fatal(err)
			}
			gc := req.For(network, "")
			gc.Command = netconf.GC
			if _, err := plugin().Call(t.Context(), gc); netconf.Code(err) != c.code {
				t.Errorf("code %d: %v", netconf.Code(err), err)
			}
			has(t, dir, c.left...)
			if _, err := os.Stat(filepath.Join(dir, "other", "10.0.0.2")); err != nil {
				t.Error(err)
			}
		})
	}
}

// CHECK finds that a lease is gone, another's, or not that of the prevResult.
func TestCheck(t *testing.T) {
	t.Parallel()
	two := config(`"ranges":[[{"subnet":"10.0.0.0/29"}],[{"subnet":"fd00::/64"}]]`)
	with := func(prev string) string {
		return strings.Replace(two, `"name"`, `"prevResult":{"cniVersion":"1.1.0","ips":[`+prev+`]},"name"`, 1)
	}
	const v4, v6 = `{"address":"10.0.0.2/29"}`, `{"address":"fd00::2/64"}`
	in := call{dir: t.TempDir(), config: two}
	in.fails(t, netconf.Check, netconf.CodeDifferent, "no address of 10.0.0.1-10.0.0.6 of 10.0.0.0/29")
	in.add(t)
	in.ok(t, netconf.Check)
	in.config = with(v4 + "," + v6 + `,{"address":"192.168.1.1/24"}`) // the last one is another plugin's
	in.ok(t, netconf.Check)
	in.config = with(v4 + "," + v6 + `,{"address":"10.0.0.3/29"}`)
	in.fails(t, netconf.Check, netconf.CodeDifferent, "10.0.0.3 of the prevResult is not leased")
	in.config = with(v4)
	in.fails(t, netconf.Check, netconf.CodeDifferent, "has fd00::2, which is not in the prevResult")
	in.config = two
	write(t, filepath.Join(in.dir, "net", "fd00::2"), "c2\r\neth0")
	in.fails(t, netconf.Check, netconf.CodeDifferent, "no address of fd00::1-fd00::ffff:ffff:ffff:ffff")
}

// Routes and the resolver's settings come with the addresses.
func TestRoutesAndDNS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "resolv.conf")
	write(t, file, "# one\nnameserver 10.0.0.53\n;x y\nsearch a.example b.example\ndomain example\noptions ndots:5\nnameserver fd00::53\nbad\n")
	req := call{verb: netconf.Add, dir: dir, config: config(`"subnet":"10.0.0.0/24","routes":[{"dst":"0.0.0.0/0"},{"dst":"10.7.0.0/16","gw":"10.0.0.9","mtu":1400}],"resolvConf":"` + file + `"`)}.request(t)
	result, err := plugin().Call(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if len(result.Routes) != 2 || result.Routes[1].MTU != 1400 || result.Routes[1].GW.String() != "10.0.0.9" {
		t.Errorf("routes %v", result.Routes)
	}
	if dns := result.DNS; fmt.Sprintf("%v", dns) != "{[10.0.0.53 fd00::53] example [a.example b.example] [ndots:5]}" {
		t.Errorf("dns %v", dns)
	}
}

// The ranges of the runtime come first, then that of the old form.
func TestOrderOfSets(t *testing.T) {
	t.Parallel()
	in := call{verb: netconf.Add, dir: t.TempDir(), config: config(`"ranges":[[{"subnet":"10.3.0.0/24"}]],"subnet":"10.2.0.0/24"},"runtimeConfig":{"ipRanges":[[{"subnet":"10.1.0.0/24"}]]`)}
	if got, err := in.serve(t); err != nil || fmt.Sprint(got) != "[10.1.0.2/24 10.1.0.1 10.2.0.2/24 10.2.0.1 10.3.0.2/24 10.3.0.1]" {
		t.Errorf("%v, %v", got, err)
	}
	for i, want := range []string{"10.1.0.2", "10.2.0.2", "10.3.0.2"} {
		if got, err := os.ReadFile(filepath.Join(in.dir, "net", fmt.Sprintf("last_reserved_ip.%d", i))); err != nil || string(got) != want {
			t.Errorf("set %d: %q, %v", i, got, err)
		}
	}
	old := in
	old.id, old.config = "c2", strings.Replace(in.config, "1.1.0", "0.2.0", 1)
	old.fails(t, netconf.Add, netconf.CodeInvalidNetworkConfig, "use cniVersion 0.3.0")
}

// What a killed process or a power cut left is no lease; the oldest form of one, without an interface, is.
func TestRemains(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, content := range map[string]string{"10.0.0.2": "", "10.0.0.3": "\x00\x00\x00", "10.0.0.4": "old", "10.0.0.5": "c5\r\neth0\n",
		"last_reserved_ip.0": "", "last_reserved_ip.cnikit-new": "c9\r\neth0", "last_reserved_ip.cnikit-index": "cnikit1\ngarbage", "notes": "c1\r\neth0"} {
		write(t, filepath.Join(dir, "net", name), content)
	}
	if err := os.Mkdir(filepath.Join(dir, "net", "10.0.0.6"), 0o755); err != nil {
		t.Fatal(err)
	}
	in := call{dir: dir}
	for _, want := range []string{"10.0.0.2", "10.0.0.3"} {
		if in.id = "n" + want; in.add(t) != want {
			t.Errorf("%s was not given", want)
		}
	}
	in.id = "more"
	in.fails(t, netconf.Add, netconf.CodeExhausted, "10.0.0.1-10.0.0.6 of 10.0.0.0/29")
	for id, want := range map[string]string{"old": "10.0.0.4", "c5": "10.0.0.5"} {
		in.id = id
		in.fails(t, netconf.Add, netconf.CodeExists, want)
		in.ok(t, netconf.Del)
		if in.id += "x"; in.add(t) != want {
			t.Errorf("%s was not freed", want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "net", "notes")); err != nil {
		t.Error(err)
	}
}

// What is left of an ADD that was killed is a lease without a name, which begins with what the reference plugin takes for
// one: its CHECK of that attachment succeeds, though it has no address. The next call of ours removes it, whichever.
func TestALeaseWithoutANameIsRemoved(t *testing.T) {
	t.Parallel()
	for _, verb := range []netconf.Command{netconf.Check, netconf.Del, netconf.Status, netconf.Add} {
		in := call{dir: t.TempDir(), id: "g1", verb: verb}
		path := filepath.Join(in.dir, "net", "last_reserved_ip.cnikit-new")
		write(t, path, "g1\r\neth0")
		if _, err := in.serve(t); err != nil && verb != netconf.Check {
			t.Errorf("%s: %v", verb, err)
		}
		if _, err := os.Lstat(path); !os.IsNotExist(err) {
			t.Errorf("%s: it is left: %v", verb, err)
		}
	}
}

// A store that cannot be used has code 105, and STATUS says so with 50.
func TestUnusable(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	write(t, file, "")
	in := call{dir: file}
	in.fails(t, netconf.Add, netconf.CodeBadStore, file)
	in.fails(t, netconf.Status, netconf.CodePluginNotAvailable, file)
	in.dir = filepath.Join(t.TempDir(), "none")
	in.ok(t, netconf.Del)
	if _, err := os.Stat(in.dir); !os.IsNotExist(err) {
		t.Errorf("DEL made the store: %v", err)
	}
}

// What validate has decoded is not decoded again, nor warned of again, by the call that follows; and what a DEL has read
// leniently is not taken for what an ADD may read.
func TestSectionIsDecodedOnce(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	c := call{verb: netconf.Add, dir: t.TempDir(), log: &log, config: config(`"subnet":"10.0.0.0/29","rangeEndd":"10.0.0.5"`)}
	req := c.request(t)
	if err := plugin().Validate(req); err != nil {
		t.Fatal(err)
	}
	if _, err := plugin().Call(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(log.String(), "rangeEndd"); n != 1 {
		t.Errorf("warned %d times:\n%s", n, log.String())
	}
	c.verb, c.config = netconf.Del, config(`"subnet":7`)
	req = c.request(t)
	if _, err := plugin().Call(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if _, err := plugin().Call(t.Context(), req.As(netconf.Add)); netconf.Code(err) != netconf.CodeDecodingFailure {
		t.Errorf("an ADD after the DEL: %v", err)
	}
}
