package ipam_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/ipam"
	"github.com/cnikit/cnikit/netconf"
)

// An old result, and one of today's, is taken over; nothing has an interface, and a route without a
// gateway has none (case C-RES-04).
func TestAnswerIsTakenOver(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ answer, ips, routes, dns string }{
		"0.2.0": {`{"cniVersion":"0.2.0","ip4":{"ip":"10.61.0.3/24","gateway":"10.61.0.1","routes":[{"dst":"0.0.0.0/0"},{"dst":"198.51.100.0/24","gw":"10.61.0.9"}]},"dns":{"nameservers":["10.61.0.1"]}}`,
			"10.61.0.3/24 via 10.61.0.1", "0.0.0.0/0 via <nil>, 198.51.100.0/24 via 10.61.0.9", "[10.61.0.1]"},
		"0.2.0 IPv6":        {`{"cniVersion":"0.2.0","ip6":{"ip":"fd61::3/64","gateway":"fd61::1"}}`, "fd61::3/64 via fd61::1", "", "[]"},
		"without a version": {`{"ip4":{"ip":"10.61.0.3/24"}}`, "10.61.0.3/24 via <nil>", "", "[]"},
		"1.1.0": {`{"cniVersion":"1.1.0","ips":[{"address":"10.61.0.3/31"},{"address":"fd61::/64","gateway":"fe80::1"},{"address":"10.62.0.255/32"}],"routes":[{"dst":"::/0","mtu":1400}],"dns":{"search":["a"]}}`,
			"10.61.0.3/31 via <nil>, fd61::/64 via fe80::1, 10.62.0.255/32 via <nil>", "::/0 via <nil>", "[]"},
		"with interfaces": {`{"cniVersion":"1.0.0","interfaces":[{"name":"eth7"}],"ips":[{"address":"10.61.0.3/24","interface":0}]}`, "10.61.0.3/24 via <nil>", "", "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := program(t, book, c.answer)
			req, log := call(t, netconf.Add, withIPAM, dir)
			req.AddInterface(&types100.Interface{Name: "eth0", Sandbox: "/n"})
			req.AddRoute(&types.Route{Dst: net.IPNet{IP: net.IPv4(192, 0, 2, 0), Mask: net.CIDRMask(24, 32)}})
			if err := ipam.FromConfig(req).Add(t.Context(), req); err != nil {
				t.Fatal(err)
			}
			var ips, routes []string
			for _, ip := range req.Result.IPs {
				ips = append(ips, fmt.Sprintf("%v via %v", &ip.Address, ip.Gateway))
				if ip.Interface != nil {
					t.Errorf("%v has interface %d", &ip.Address, *ip.Interface)
				}
			}
			for _, r := range req.Result.Routes[1:] {
				routes = append(routes, fmt.Sprintf("%v via %v", &r.Dst, r.GW))
			}
			if got := strings.Join(ips, ", "); got != c.ips {
				t.Errorf("addresses %s: expected %s", got, c.ips)
			}
			if got := strings.Join(routes, ", "); got != c.routes {
				t.Errorf("routes %s: expected %s", got, c.routes)
			}
			if got := fmt.Sprint(req.Result.DNS.Nameservers); got != c.dns {
				t.Errorf("name servers %s: expected %s", got, c.dns)
			}
			if warned := strings.Contains(log.String(), "interfaces"); len(req.Result.Interfaces) != 1 || warned != (name == "with interfaces") {
				t.Errorf("%d interfaces, warned %q", len(req.Result.Interfaces), log)
			}
			if calls(t, dir) != "ADD" {
				t.Errorf("calls %s", calls(t, dir))
			}
		})
	}
}

// An answer that cannot be used fails the ADD. What the plugin has written down is for Del to release, which
// the caller calls: once.
func TestBadAnswer(t *testing.T) {
	t.Parallel()
	for answer, words := range map[string][]string{
		`{"cniVersion":"1.1.0"}`:                                        {"no address"},
		`{"ips":[{"address":"10.0.0.3/24","gateway":"fd00::1"}]}`:       {"ips[0].gateway", "fd00::1", "another family"},
		`{"ips":[{"address":"fd00::3/64","gateway":"10.0.0.1"}]}`:       {"ips[0].gateway", "another family"},
		`{"ips":[{"address":"10.0.0.3/24","gateway":"0.0.0.0"}]}`:       {"ips[0].gateway"},
		`{"ips":[{"address":"10.0.0.3/24"},{"address":"10.0.0.3/24"}]}`: {"ips[1].address", "ips[0]"},
		`{"ips":[{"address":"10.0.0.3/24"},{"address":"10.0.0.3/16"}]}`: {"ips[1].address", "10.0.0.3/16"},
		`{"ips":[{"address":"10.0.0.0/24"}]}`:                           {"ips[0].address", "10.0.0.0/24", "network or broadcast"},
		`{"ips":[{"address":"10.0.0.3/30"}]}`:                           {"network or broadcast"},
		`{"ips":[{"address":"0.0.0.0/24"},{"address":"224.0.0.1/24"}]}`: {"ips[0].address", "ips[1].address"},
		`{"ips":[{"address":"127.0.0.1/8"}]}`:                           {"no address of a host"},
		`{"ips":[{"address":"255.255.255.255/32"}]}`:                    {"no address of a host"},
		`{"ips":[{"address":"10.0.0.3/0"}]}`:                            {"length 0"},
		`{"ips":[{"address":"::ffff:10.0.0.3/120"}]}`:                   {"one family"},
		`{"ips":[{"address":"::/64"}]}`:                                 {"no address of a host"},
		`{"ips":[{"address":"ff02::1/64"}]}`:                            {"no address of a host"},
		`{"ips":[{"address":"10.0.0.256/24"}]}`:                         {"ips[0].address"},
		`{"ips":[null]}`:                                                {"ips[0]"},
		`hello`:                                                         {"not JSON"},
		``:                                                              {"empty"},
		`{"code":11,"msg":"later"}`:                                     {"later"},
	} {
		t.Run(answer, func(t *testing.T) {
			t.Parallel()
			dir := program(t, book, answer)
			req, _ := call(t, netconf.Add, withIPAM, dir)
			err := ipam.FromConfig(req).Add(t.Context(), req)
			if netconf.Code(err) != 104 {
				t.Fatalf("code %d: %v", netconf.Code(err), err)
			}
			for _, word := range append(words, `"fake" ADD, network "net"`) {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("error %q: expected %q in it", err, word)
				}
			}
			if calls(t, dir) != "ADD" || netconf.IsUnchanged(err) || len(req.Result.IPs) > 0 {
				t.Errorf("calls %q, unchanged %v, result %v", calls(t, dir), netconf.IsUnchanged(err), req.Result)
			}
			var own *ipam.Error
			var coded *types.Error
			if errors.Is(err, ipam.ErrBadAnswer) && (!errors.As(err, &own) || !errors.As(err, &coded) || coded.Msg != err.Error()) {
				t.Errorf("%+v: not an *ipam.Error, or less is said under another skel", coded)
			}
		})
	}
}

// Every verb reaches the plugin, with the same configuration, byte for byte, and the same environment:
// GC too, which no reference plugin passes on. DEL needs no namespace and no prevResult (F5), and STATUS is
// the plugin's word about its pool (F7).
func TestF5F7EveryVerbIsPassedOn(t *testing.T) {
	t.Parallel()
	const prev = `"prevResult":{"cniVersion":"1.1.0","ips":[{"address":"10.0.0.3/24"}],"x-vendor":18446744073709551615}`
	const args = "IgnoreUnknown=1;K8S_POD_UID=;LABEL=YWJj=="
	for _, c := range []struct {
		command netconf.Command
		run     func(ipam.Step, context.Context, *netconf.Request) error
		keys    string
		code    uint
		said    string
	}{
		{netconf.Add, ipam.Step.Add, "", 101, "ADD c1 /run/netns/none eth0 " + args},
		{netconf.Check, ipam.Step.Check, prev, 102, "CHECK c1 /run/netns/none eth0 " + args},
		{netconf.Del, ipam.Step.Del, "", 105, "DEL c1  eth0 " + args},
		{netconf.GC, ipam.Step.GC, `"cni.dev/valid-attachments":[]`, 105, "GC    "},
		{netconf.Status, ipam.Step.Status, "", 50, "STATUS    "},
	} {
		t.Run(string(c.command), func(t *testing.T) {
			t.Parallel()
			dir := program(t, book, `{"ips":[{"address":"10.0.0.3/24"}]}`)
			config := withIPAM
			if c.keys != "" {
				config = strings.Replace(config, `"n":`, c.keys+` , "n":`, 1)
			}
			for _, fail := range []bool{false, true} {
				if fail {
					write(t, filepath.Join(dir, "answer"), "")
					write(t, filepath.Join(dir, "fail."+string(c.command)), fmt.Sprintf(`{"code":%d,"msg":"because"}`, c.code))
				}
				req, _ := call(t, c.command, config, dir)
				if c.command == netconf.GC || c.command == netconf.Status {
					req.Args, req.ContainerID, req.Netns, req.IfName = nil, "", "", ""
				}
				step := ipam.FromConfig(req)
				if c.command == netconf.Del {
					req = req.As(netconf.Add) // a step in a rollback of a daemon's
				}
				err := c.run(step, t.Context(), req)
				if want := map[bool]uint{true: c.code}[fail]; netconf.Code(err) != want {
					t.Errorf("code %d: %v: expected %d", netconf.Code(err), err, want)
				}
				if fail && !strings.Contains(err.Error(), "because") {
					t.Error(err)
				}
			}
			said, err := os.ReadFile(filepath.Join(dir, "calls"))
			if first, _, _ := strings.Cut(string(said), "\n"); err != nil || !sameArgs(first, c.said) {
				t.Errorf("environment %q: expected %q", first, c.said)
			}
			if got, err := os.ReadFile(filepath.Join(dir, "stdin."+string(c.command))); err != nil || string(got) != config {
				t.Errorf("configuration %s: expected %s", got, config)
			}
		})
	}
}

// The IPAM plugin is told of all that lives, also where the list stands under its old name, or says more there:
// host-local reads the new one only, and takes an absent list for an empty one.
func TestGCPassesTheWholeListOn(t *testing.T) {
	t.Parallel()
	const a, b = `{"containerID":"a","ifname":"eth0"}`, `{"containerID":"b","ifname":"eth0"}`
	for given, want := range map[string]string{
		`"cni.dev/attachments":[` + a + `]`:                                                   `[` + a + `]`,
		`"cni.dev/attachments":[]`:                                                            `[]`,
		`"cni.dev/attachments":[` + b + `],"cni.dev/valid-attachments":[` + a + `]`:           `[` + a + `,` + b + `]`,
		`"cni.dev/valid-attachments":null,"cni.dev/attachments":[` + a + `]`:                  `[` + a + `]`,
		`"cni.dev/valid-attachments":[` + a + `,` + b + `],"cni.dev/attachments":[` + a + `]`: `[` + a + `,` + b + `]`,
	} {
		dir := program(t, book, "")
		req, _ := call(t, netconf.GC, strings.Replace(withIPAM, `"n":`, given+`,"n":`, 1), dir)
		if err := ipam.FromConfig(req).GC(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		var got map[string]json.RawMessage
		data, err := os.ReadFile(filepath.Join(dir, "stdin.GC"))
		if err != nil || json.Unmarshal(data, &got) != nil || string(got["cni.dev/valid-attachments"]) != want {
			t.Errorf("%s: %v, passed on as %s: expected %s", given, err, data, want)
		}
	}
}

// sameArgs compares the words; of the last, CNI_ARGS, the pairs, whose order has no meaning.
func sameArgs(a, b string) bool {
	i, j := strings.LastIndex(a, " ")+1, strings.LastIndex(b, " ")+1
	x, y := strings.Split(a[i:], ";"), strings.Split(b[j:], ";")
	if a[:i] != b[:j] || len(x) != len(y) {
		return false
	}
	for _, pair := range x {
		if !strings.Contains(";"+b[j:]+";", ";"+pair+";") {
			return false
		}
	}
	return true
}

// A configuration's version that lacks a verb is no reason to fail in it.
func TestVerbsOfOldVersions(t *testing.T) {
	t.Parallel()
	dir := program(t, book, "")
	config := strings.Replace(withIPAM, "1.1.0", "0.3.1", 1)
	req, _ := call(t, netconf.Add, config, dir)
	step := ipam.FromConfig(req)
	for _, run := range []func(context.Context, *netconf.Request) error{step.Check, step.GC, step.Status} {
		if err := run(t.Context(), req); err != nil {
			t.Error(err)
		}
	}
	if calls(t, dir) != "" {
		t.Errorf("calls %s", calls(t, dir))
	}
}

// A program refuses a version that it does not know, again at each try: what was leased before the configuration was changed
// is released all the same, in the newest version, and only there.
func TestDelInAVersionThatNobodyKnows(t *testing.T) {
	t.Parallel()
	const strict = `cd "${0%/*}"; cat > in; exec < in
case $(cat in) in *'"9.9.9"'*) echo '{"cniVersion":"1.1.0","code":1,"msg":"incompatible CNI versions"}'; exit 1;; esac
` + book
	for version, instead := range map[string]string{"9.9.9": "1.1.0", "1.1": "1.1.0", "x": "1.1.0", "0.3.1": "0.3.1"} {
		dir := program(t, strict, `{"ips":[{"address":"10.0.0.3/24"}]}`)
		req, _ := call(t, netconf.Add, withIPAM, dir)
		if err := ipam.FromConfig(req).Add(t.Context(), req); err != nil || len(leases(t, dir)) != 1 {
			t.Fatalf("%v, leases %q", err, leases(t, dir))
		}
		req, log := call(t, netconf.Del, strings.Replace(withIPAM, "1.1.0", version, 1), dir)
		err := ipam.FromConfig(req).Del(t.Context(), req)
		if err != nil || len(leases(t, dir)) > 0 || strings.Contains(log.String(), "in another version") != (version != instead) {
			t.Errorf("%s: %v, leases %q, warned %q", version, err, leases(t, dir), log)
		}
		data, err := os.ReadFile(filepath.Join(dir, "stdin.DEL"))
		if want := `"cniVersion":"` + instead + `"`; err != nil || strings.Count(string(data), want) != 1 || !strings.Contains(string(data), `"n":9007199254740993`) {
			t.Errorf("%s: %v, called with %s: expected %s in it, and the rest as it was", version, err, data, want)
		}
	}
}

// An uninstall script took the program away before the pods were gone (case C-DEL-06): the DEL names
// it and CNI_PATH, and can be repeated when it is back.
func TestProgramMissingAtDel(t *testing.T) {
	t.Parallel()
	dir := program(t, book, `{"ips":[{"address":"10.0.0.3/24"}]}`)
	req, _ := call(t, netconf.Add, withIPAM, dir)
	if err := ipam.FromConfig(req).Add(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "fake")
	if err := os.Rename(file, file+".away"); err != nil {
		t.Fatal(err)
	}
	req, _ = call(t, netconf.Del, withIPAM, dir)
	step := ipam.FromConfig(req)
	err := step.Del(t.Context(), req)
	if !errors.Is(err, delegate.ErrNotFound) || !strings.Contains(err.Error(), `"fake"`) || !strings.Contains(err.Error(), "CNI_PATH") || netconf.Code(err) != 5 || !strings.Contains(err.Error(), dir) {
		t.Errorf("%v: expected the program and CNI_PATH to be named", err)
	}
	if err := step.Status(t.Context(), req); netconf.Code(err) != 50 || !strings.Contains(err.Error(), "ipam.type (line 1, column 88)") {
		t.Errorf("STATUS: code %d: %v", netconf.Code(err), err)
	}
	if err := os.Rename(file+".away", file); err != nil {
		t.Fatal(err)
	}
	if err := step.Del(t.Context(), req); err != nil || len(leases(t, dir)) > 0 {
		t.Errorf("%v, leases %q", err, leases(t, dir))
	}
}

// Upstream's library cannot read a '=' in a value, nor, without IgnoreUnknown, a key it does not know;
// all references use it, on DEL too (case C-CONF-08). Who can read the arguments gets them as they are.
func TestArgumentsThatThePluginCannotRead(t *testing.T) {
	t.Parallel()
	const picky = `case $CNI_ARGS in
*==*) echo '{"code":999,"msg":"ARGS: invalid pair \"LABEL=YWJj==\""}'; exit 1;;
*IgnoreUnknown=1*|"") ;;
*) echo '{"code":999,"msg":"ARGS: unknown args [\"X=1\"]"}'; exit 1;;
esac
` + book
	for _, c := range []struct {
		args netconf.Args
		said string // what reaches the store; "" is nothing
		code uint
	}{
		{netconf.Args{"IgnoreUnknown": "1", "A": "b"}, "IgnoreUnknown=1;A=b", 0},
		{netconf.Args{"IgnoreUnknown": "1", "LABEL": "YWJj==", "A": "b"}, "IgnoreUnknown=1;A=b", 0},
		{netconf.Args{"X": "1"}, "IgnoreUnknown=1;X=1", 0},
		{netconf.Args{"X": "1", "LABEL": "YWJj=="}, "IgnoreUnknown=1;X=1", 0},
		{netconf.Args{"X": "1", "IgnoreUnknown": "0"}, "", 999}, // as the caller wants it
		{nil, "", 0},
	} {
		t.Run(c.args.String(), func(t *testing.T) {
			t.Parallel()
			dir := program(t, picky, `{"ips":[{"address":"10.0.0.3/24"}]}`)
			req, log := call(t, netconf.Add, withIPAM, dir)
			req.Args = c.args
			before := c.args.String()
			step := ipam.FromConfig(req)
			for _, run := range []func(context.Context, *netconf.Request) error{step.Add, step.Del} {
				log.Reset()
				if err := run(t.Context(), req); netconf.Code(err) != c.code {
					t.Errorf("code %d: %v", netconf.Code(err), err)
				}
				if warned := strings.Contains(log.String(), "CNI_ARGS"); warned != (c.code == 0 && c.said != before) {
					t.Errorf("warned %q", log)
				}
				if strings.Contains(log.String(), "YWJj") {
					t.Errorf("a value of CNI_ARGS is in the log: %q", log)
				}
			}
			said, err := os.ReadFile(filepath.Join(dir, "calls"))
			if c.code == 0 && (err != nil || strings.Count(string(said), " eth0 "+c.said+"\n") != 2) {
				t.Errorf("%v: calls %q: expected %q", err, said, c.said)
			}
			if req.Args.String() != before || len(leases(t, dir)) > 0 {
				t.Errorf("arguments now %v, leases %q", req.Args, leases(t, dir))
			}
		})
	}
	all := netconf.Args{"LABEL": "YWJj=="}
	dir := program(t, book, `{"ips":[{"address":"10.0.0.3/24"}]}`)
	req, _ := call(t, netconf.Add, withIPAM, dir)
	req.Args = all
	if err := ipam.FromConfig(req).Add(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if said, err := os.ReadFile(filepath.Join(dir, "calls")); err != nil || !strings.HasSuffix(string(said), " LABEL=YWJj==\n") {
		t.Errorf("%v: calls %q", err, said)
	}
}

// The daemon of the reference dhcp plugin is not there: an ADD can come again, and a DEL has nothing to release, today or
// when the daemon is back with an empty memory. All else that the plugin says is its error.
func TestDaemonOfTheDHCPPluginIsNotThere(t *testing.T) {
	t.Parallel()
	for text, gone := range map[string]bool{
		"error dialing DHCP daemon: dial unix /run/cni/dhcp.sock: connect: no such file or directory": true,
		"error dialing DHCP daemon: dial unix /run/cni/dhcp.sock: connect: connection refused":        true,
		"error dialing DHCP daemon: dial unix /run/cni/dhcp.sock: connect: permission denied":         false,
		"error calling DHCP.Release: open /x: connect: no such file or directory":                     false,
	} {
		dir := program(t, book, "")
		for _, verb := range []string{"ADD", "CHECK", "DEL"} {
			write(t, filepath.Join(dir, "fail."+verb), `{"code":999,"msg":"`+text+`"}`)
		}
		req, log := call(t, netconf.Add, withIPAM, dir)
		step := ipam.FromConfig(req)
		code := map[bool]uint{true: 11, false: 999}[gone]
		if err := step.Add(t.Context(), req); netconf.Code(err) != code || !strings.Contains(err.Error(), text) || netconf.IsUnchanged(err) != gone {
			t.Errorf("ADD, unchanged %v: code %d: %v", netconf.IsUnchanged(err), netconf.Code(err), err)
		}
		if err := step.Check(t.Context(), req); netconf.Code(err) != code {
			t.Errorf("CHECK: code %d: %v", netconf.Code(err), err)
		}
		if err := step.Del(t.Context(), req); (err == nil) != gone || strings.Contains(log.String(), text) != gone {
			t.Errorf("DEL: %v, warned %q", err, log)
		}
	}
}
