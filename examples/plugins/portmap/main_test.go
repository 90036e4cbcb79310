package main

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/link/nat"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
)

func TestMain(m *testing.M) { skeltest.Main(m) }

const prev = `{"cniVersion":"1.1.0","interfaces":[{"name":"port"},{"name":"eth0","sandbox":"@NS@"}],
	"ips":[{"address":"192.0.2.7/24","interface":0},{"address":"10.1.0.2/24","gateway":"10.1.0.1","interface":1},{"address":"fd00:1::2/64","interface":1},{"address":"10.1.0.3/24","interface":1}],
	"routes":[{"dst":"0.0.0.0/0"}]}`

const tcp8080 = `{"hostPort":8080,"containerPort":80,"protocol":"tcp"}`

// add is the ADD of a container in a namespace; keys are further keys of the configuration.
func add(ns *skeltest.NS, mappings, keys string) skeltest.Call {
	return skeltest.Call{
		Command: netconf.Add, ContainerID: ns.Name, Netns: ns.Path, IfName: "eth0",
		Prev:   strings.Replace(prev, "@NS@", ns.Path, 1),
		Config: `{"cniVersion":"1.1.0","name":"net","type":"portmap",` + keys + `"capabilities":{"portMappings":true},"runtimeConfig":{"portMappings":[` + mappings + `]}}`,
	}
}

// needed skips the test on a kernel without nftables in the family inet.
func needed(t *testing.T) {
	t.Helper()
	skeltest.NeedRoot(t)
	host, err := link.Current()
	if err != nil {
		t.Fatal(err)
	}
	if err := nat.Probe(t.Context(), host); errors.Is(err, link.ErrNotSupported) {
		t.Skip(err)
	}
	if err := host.Close(); err != nil {
		t.Error(err)
	}
}

// container is a namespace with eth0, reached by the host's link "port" and routes of single addresses: by a wider one a pair may
// be the host's way out, and 127.0.0.1 is not led there.
func container(t *testing.T) *skeltest.NS {
	t.Helper()
	needed(t)
	ns := skeltest.NewNS(t)
	skeltest.Host(t, "ip", "link", "add", "port", "type", "veth", "peer", "name", "eth0", "netns", ns.Name)
	t.Cleanup(func() { _ = exec.Command("ip", "link", "del", "port").Run() }) // the namespace may have taken it along
	skeltest.Host(t, "sh", "-ec", `sysctl -qw net.ipv6.conf.port.accept_dad=0 net.ipv4.ip_forward=1; ip link set port addrgenmode none up
		ip addr add 10.1.0.1/32 dev port; ip addr add fd00:1::1/128 dev port nodad
		for a in 10.1.0.2 10.1.0.3 fd00:1::2; do ip route add $a dev port; done`)
	ns.Run("sh", "-ec", `ip link set eth0 addrgenmode none up; ip addr add 10.1.0.2/24 dev eth0; ip addr add fd00:1::2/64 dev eth0 nodad
		ip route add default via 10.1.0.1`)
	t.Cleanup(func() { skeltest.Host(t, "sh", "-c", "nft delete table inet cnikit 2>/dev/null; true") })
	return ns
}

func ask(t *testing.T, to string) (string, error) {
	t.Helper()
	out, err := exec.Command("bash", "-c", "exec 3<>/dev/tcp/"+strings.Replace(to, ":", "/", 1)+" && timeout 10 cat <&3").Output()
	return string(out), err
}

// serve answers on TCP port 80 of the container.
func serve(t *testing.T, ns *skeltest.NS) {
	t.Helper()
	cmd := exec.Command("ip", "netns", "exec", ns.Name, "python3", "-c", `
import socket
s = socket.create_server(("", 80)); print(flush=True)
while True:
    c, a = s.accept(); c.sendall(a[0].encode()); c.close()`)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it never ends by itself
		_ = cmd.Wait()
	})
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
}

func TestPacketsFlowAndNothingIsLeft(t *testing.T) {
	ns := container(t)
	serve(t, ns)
	call := add(ns, tcp8080, "")
	a := call.Run(t.Context(), t, plugin()).OK(t)
	call.With(netconf.Del).Run(t.Context(), t, plugin()).OK(t)
	before := skeltest.HostSnapshot(t)
	call.Run(t.Context(), t, plugin()).OK(t)
	for _, to := range []string{"127.0.0.1:8080", "10.1.0.1:8080"} {
		if from, err := ask(t, to); err != nil || from != "10.1.0.1" {
			t.Errorf("%s: the container sees %q, %v", to, from, err)
		}
	}
	if a.Result == nil || len(a.Result.IPs) != 4 || len(a.Result.Interfaces) != 2 || len(a.Result.Routes) != 1 {
		t.Errorf("the prevResult is not passed through: %+v", a.Result)
	}
	check := call.With(netconf.Check)
	check.Run(t.Context(), t, plugin()).OK(t)
	skeltest.Host(t, "nft", "delete", "element", "inet", "cnikit", "ports6", "{ tcp . 8080 }")
	check.Run(t.Context(), t, plugin()).Fails(t, netconf.CodeDifferent, "tcp port 8080", "fd00:1::2")
	del := call.With(netconf.Del)
	del.Prev, del.Netns = "", ""
	for range 2 {
		del.Run(t.Context(), t, plugin()).OK(t)
		if diff := before.Diff(skeltest.HostSnapshot(t)); diff != "" {
			t.Errorf("left behind: %s", diff)
		}
	}
	if from, err := ask(t, "127.0.0.1:8080"); err == nil {
		t.Errorf("after DEL %q answers", from)
	}
}

// The call is harmed at each of its operations in turn: everything is as before, each time.
func TestHarmedAnywhereNothingIsLeft(t *testing.T) {
	ns := container(t)
	call := add(ns, tcp8080+`,{"hostPort":53,"containerPort":53,"protocol":"udp","hostIP":"10.1.0.1"}`, "")
	if n := skeltest.Walk(t, plugin(), call, ns, nil); n < 1 {
		t.Errorf("an ADD of %d operations: the fault hook is not called", n)
	}
}

// Without mappings nothing is done, not even a table is made.
func TestNothingToMap(t *testing.T) {
	ns := container(t)
	before := skeltest.HostSnapshot(t)
	call := add(ns, "", "")
	for _, verb := range []netconf.Command{netconf.Add, netconf.Check, netconf.Del} {
		call.With(verb).Run(t.Context(), t, plugin()).OK(t)
	}
	if diff := before.Diff(skeltest.HostSnapshot(t)); diff != "" {
		t.Errorf("changed: %s", diff)
	}
}

// A path that leads to no network namespace is refused, although nothing is to be done there.
func TestNamespaceOfAnotherKind(t *testing.T) {
	ns := container(t)
	for _, mappings := range []string{"", tcp8080} {
		call := add(ns, mappings, "")
		call.Netns = "/proc/self/ns/uts"
		call.Run(t.Context(), t, plugin()).Fails(t, netconf.CodeInvalidEnvironment, "CNI_NETNS")
	}
}

func TestPrevResult(t *testing.T) {
	ns := container(t)
	noAddress := add(ns, tcp8080, "")
	noAddress.Prev = `{"cniVersion":"1.1.0","interfaces":[{"name":"eth0","sandbox":"` + ns.Path + `"}]}`
	noAddress.Run(t.Context(), t, plugin()).Fails(t, netconf.CodeInvalidNetworkConfig, "no address", "eth0")
	noAddress.With(netconf.Del).Run(t.Context(), t, plugin()).OK(t)
	none := add(ns, tcp8080, "")
	none.Prev = ""
	none.Run(t.Context(), t, plugin()).Fails(t, netconf.CodeInvalidNetworkConfig, "prevResult")
	v4 := add(ns, tcp8080+`,{"hostPort":81,"containerPort":80,"hostIP":"fd00:1::1"}`, "")
	v4.Prev = `{"cniVersion":"0.4.0","ips":[{"version":"4","address":"10.1.0.2/24"}]}` // an old plugin: no interfaces
	v4.Config = strings.Replace(v4.Config, "1.1.0", "0.4.0", 1)
	a := v4.Run(t.Context(), t, plugin()).OK(t)
	if !strings.Contains(a.Stderr, "the port is not mapped") || !strings.Contains(a.Stderr, "fd00:1::1") {
		t.Errorf("stderr: %s", a.Stderr)
	}
	if list := skeltest.Host(t, "nft", "list", "table", "inet", "cnikit"); !strings.Contains(list, "tcp . 8080") || strings.Contains(list, "tcp . 81 ") {
		t.Errorf("%s", list)
	}
	v4.With(netconf.Del).Run(t.Context(), t, plugin()).OK(t)
}

// A second container that wants the port is told who has it; what it made is taken away, the first goes on.
func TestSecondOwner(t *testing.T) {
	ns, other := container(t), skeltest.NewNS(t)
	serve(t, ns)
	first := add(ns, tcp8080, "")
	first.Run(t.Context(), t, plugin()).OK(t)
	before := skeltest.HostSnapshot(t)
	second := add(other, `{"hostPort":81,"containerPort":80},`+strings.Replace(tcp8080, "}", `,"hostIP":"10.1.0.1"}`, 1), "")
	second.Run(t.Context(), t, plugin()).Fails(t, netconf.CodeExists, "tcp port 8080", "cni:net:"+ns.Name+":eth0")
	second.With(netconf.Del).Run(t.Context(), t, plugin()).OK(t)
	first.Run(t.Context(), t, plugin()).Fails(t, netconf.CodeExists) // a second ADD
	if diff := before.Diff(skeltest.HostSnapshot(t)); diff != "" {
		t.Errorf("changed: %s", diff)
	}
	if _, err := ask(t, "127.0.0.1:8080"); err != nil {
		t.Error(err)
	}
}

func TestGC(t *testing.T) {
	ns, other := container(t), skeltest.NewNS(t)
	add(ns, tcp8080, "").Run(t.Context(), t, plugin()).OK(t)
	add(other, strings.Replace(tcp8080, "8080", "8081", 1), "").Run(t.Context(), t, plugin()).OK(t)
	gc := skeltest.Call{Command: netconf.GC, Path: "/nowhere", Config: fmt.Sprintf(
		`{"cniVersion":"1.1.0","name":"net","type":"portmap","cni.dev/valid-attachments":[{"containerID":%q,"ifname":"eth0"}]}`, other.Name)}
	gc.Run(t.Context(), t, plugin()).OK(t)
	if list := skeltest.Host(t, "nft", "list", "table", "inet", "cnikit"); strings.Contains(list, "8080") || !strings.Contains(list, "8081") {
		t.Errorf("%s", list)
	}
	gc.With(netconf.Status).Run(t.Context(), t, plugin()).OK(t)
}

// What is not served is refused before any work, with the reason; what asks for nothing, or for what is so anyway, is taken.
func TestKeys(t *testing.T) {
	ns := container(t)
	for keys, words := range map[string][]string{
		`"backend":"iptables",`:                     {"backend", "nftables"},
		`"backend":"ipfw",`:                         {"backend", "ipfw", "nftables"},
		`"conditionsV4":["-d","192.0.2.0/24"],`:     {"conditionsV4", "not served"},
		`"conditionsV6":["ip6","daddr","fd00::1"],`: {"conditionsV6", "not served"},
		`"externalSetMarkChain":"KUBE-MARK-MASQ",`:  {"externalSetMarkChain", "not served"},
		`"markMasqBit":14,`:                         {"markMasqBit", "13"},
	} {
		add(ns, tcp8080, keys).Run(t.Context(), t, plugin()).Fails(t, netconf.CodeInvalidNetworkConfig, words...)
		add(ns, tcp8080, keys).With(netconf.Del).Run(t.Context(), t, plugin()).OK(t)
	}
	for _, keys := range []string{`"backend":"nftables","conditionsV4":[],"conditionsV6":null,"markMasqBit":13,`, `"masqAll":true,`, `"snat":false,`} {
		call := add(ns, tcp8080, keys)
		call.Run(t.Context(), t, plugin()).OK(t)
		call.With(netconf.Check).Run(t.Context(), t, plugin()).OK(t)
		list := skeltest.Host(t, "nft", "list", "table", "inet", "cnikit")
		all, loopback := strings.Contains(list, "10.1.0.2 . 0.0.0.0 "), strings.Contains(list, "10.1.0.2 . 127.0.0.0 ")
		if all != strings.Contains(keys, "masqAll") || loopback == (all || strings.Contains(keys, "snat")) {
			t.Errorf("%s: %s", keys, list)
		}
		call.With(netconf.Del).Run(t.Context(), t, plugin()).OK(t)
	}
	bad := add(ns, `{"hostPort":0,"containerPort":80}`, "")
	bad.Run(t.Context(), t, plugin()).Fails(t, netconf.CodeInvalidNetworkConfig, "portMappings[0].hostPort")
	bad.With(netconf.Del).Run(t.Context(), t, plugin()).OK(t)
}

// An address on which no packet can ever be led into a container is refused, by its path, and not mapped in silence.
func TestAHostIPThatLeadsNowhereIsRefused(t *testing.T) {
	ns := container(t)
	before := skeltest.HostSnapshot(t)
	const at = `{"hostPort":80,"containerPort":80},{"hostPort":80,"containerPort":80},{"hostPort":8081,"containerPort":80,"hostIP":"`
	for ip, c := range map[string]struct{ keys, why string }{
		"::1":              {"", "::1 leads nowhere"},
		"224.0.0.1":        {"", "multicast"},
		"::ffff:224.0.0.1": {"", "multicast"},
		"ff02::1":          {"", "multicast"},
		"255.255.255.255":  {"", "broadcast"},
		"fe80::1":          {"", "link"},
		"127.0.0.1":        {`"snat":false,`, "snat"},
		"::ffff:127.0.0.1": {`"snat":false,`, "snat"},
	} {
		call := add(ns, at+ip+`"}`, c.keys)
		call.Run(t.Context(), t, plugin()).Fails(t, netconf.CodeInvalidNetworkConfig, "runtimeConfig.portMappings[2].hostIP", c.why)
		call.With(netconf.Check).Run(t.Context(), t, plugin()).Fails(t, netconf.CodeInvalidNetworkConfig, "runtimeConfig.portMappings[2].hostIP")
		call.With(netconf.Del).Run(t.Context(), t, plugin()).OK(t)
	}
	if diff := before.Diff(skeltest.HostSnapshot(t)); diff != "" {
		t.Errorf("changed: %s", diff)
	}
	for _, ip := range []string{"", "0.0.0.0", "::", "127.0.0.1", "::ffff:10.1.0.1", "169.254.1.1", "fd00:1::1", "::ffff:0.0.0.0"} {
		call := add(ns, at+ip+`"}`, "")
		call.Run(t.Context(), t, plugin()).OK(t)
		call.With(netconf.Check).Run(t.Context(), t, plugin()).OK(t)
		call.With(netconf.Del).Run(t.Context(), t, plugin()).OK(t)
	}
}

// The help lists what is taken: it offered iptables, which is refused.
func TestHelpOffersNoBackendThatIsRefused(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("go"); err != nil {
		t.Skipf("the plugin is not built: %v", err)
	}
	out, err := exec.Command(filepath.Join(skeltest.Build(t, "."), "portmap"), "help").Output()
	if err != nil || !strings.Contains(string(out), "(expected nftables)") {
		t.Errorf("%v\n%s", err, out)
	}
}
