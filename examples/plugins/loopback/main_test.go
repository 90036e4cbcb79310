package main

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
)

func TestMain(m *testing.M) { skeltest.Main(m) }

// add is the ADD of a container in a namespace.
func add(ns *skeltest.NS, ifname, version string) skeltest.Call {
	return skeltest.Call{Command: netconf.Add, ContainerID: ns.Name, Netns: ns.Path, IfName: ifname,
		Config: `{"cniVersion":"` + version + `","name":"lo","type":"loopback"}`}
}

// As a runtime calls it, for lo, and as one does that has it in a list, for eth0.
func TestLoIsUpAndSetDownAgain(t *testing.T) {
	for _, ifname := range []string{"lo", "eth0"} {
		ns := skeltest.NewNS(t)
		ns.Run("sh", "-c", "ip link set lo up; ip link set lo down") // the kernel leaves 127.0.0.1 on it
		host, empty := skeltest.HostSnapshot(t), ns.Snapshot()
		a := add(ns, ifname, "1.1.0").Run(t.Context(), t, plugin()).OK(t)
		ns.Ping("127.0.0.1")
		ns.Ping("::1")
		if want := `{"cniVersion":"1.1.0","interfaces":[{"name":"lo","mac":"00:00:00:00:00:00","sandbox":"` + ns.Path +
			`"}],"ips":[{"interface":0,"address":"127.0.0.1/8"},{"interface":0,"address":"::1/128"}]}`; !sameJSON(t, a.Stdout, want) {
			t.Errorf("%s\nexpected %s", a.Stdout, want)
		}
		check := add(ns, ifname, "1.1.0").With(netconf.Check).WithPrev(a)
		check.Run(t.Context(), t, plugin()).OK(t)
		add(ns, ifname, "1.1.0").With(netconf.Status).Run(t.Context(), t, plugin()).OK(t)
		ns.Run("ip", "link", "set", "lo", "down")
		check.Run(t.Context(), t, plugin()).Fails(t, netconf.CodeDifferent, "lo")
		add(ns, ifname, "1.1.0").With(netconf.Del).Run(t.Context(), t, plugin()).OK(t)
		if diff := empty.Diff(ns.Snapshot()) + host.Diff(skeltest.HostSnapshot(t)); diff != "" {
			t.Errorf("%s: left behind: %s", ifname, diff)
		}
	}
}

func TestResultOfEachVersion(t *testing.T) {
	for version, words := range map[string][]string{
		"0.1.0": {`"ip4":{"ip":"127.0.0.1/8"}`, `"ip6":{"ip":"::1/128"}`},
		"0.2.0": {`"ip4":{"ip":"127.0.0.1/8"}`, `"ip6":{"ip":"::1/128"}`},
		"0.3.1": {`"version":"4"`, `"version":"6"`, `"name":"lo"`},
		"1.0.0": {`"address":"127.0.0.1/8"`, `"address":"::1/128"`},
	} {
		ns := skeltest.NewNS(t)
		a := add(ns, "lo", version).Run(t.Context(), t, plugin()).OK(t)
		text := strings.NewReplacer(" ", "", "\n", "", "\t", "").Replace(a.Stdout)
		for _, word := range words {
			if !strings.Contains(text, word) {
				t.Errorf("version %s: no %s in %s", version, word, a.Stdout)
			}
		}
	}
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	for text, into := range map[string]*any{a: &x, b: &y} {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatal(err)
		}
	}
	return reflect.DeepEqual(x, y)
}
