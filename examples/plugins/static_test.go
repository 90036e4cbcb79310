//go:build linux

package plugins_test

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/internal/testbin"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// Both programs are asked the same; where ours answers otherwise, the README says so.
func TestStaticAnswersAsTheReferencePlugin(t *testing.T) {
	skeltest.NeedRoot(t) // the programs are built as root, or were built before
	static := skeltest.Binary(testbin.Plugin(t, "static"))
	reference := filepath.Join(testbin.Reference(t, testbin.Static), "static")
	const routes = `,"routes":[{"dst":"0.0.0.0/0"}]`
	const addresses = `,"addresses":[{"address":"10.1.0.5/24","gateway":"10.1.0.1"},{"address":"fd00:1::5/64","gateway":"fd00:1::1"}]`
	const lan = addresses + routes
	const others, asked = `,"args":{"cni":{"ips":["10.1.0.8/24","fd00:1::8/64"]}}`, `,"runtimeConfig":{"ips":["10.1.0.9/24"]}`
	for _, version := range []string{"0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"} {
		for _, c := range []struct{ name, keys, more, args string }{
			{"addresses", lan, "", ""},
			{"one family", `,"addresses":[{"address":"fd00:1::5/64"}]`, "", ""},
			{"dns", lan + `,"dns":{"nameservers":["10.1.0.1"],"domain":"d","search":["a"],"options":["b"]}`, "", ""},
			{"route attributes", addresses + `,"routes":[{"dst":"10.8.0.0/16","gw":"10.1.0.9","mtu":1400,"advmss":1360,"priority":7,"table":100,"scope":253}]`, "", ""},
			{"routes with a host part", addresses + `,"routes":[{"dst":"10.8.3.1/16","gw":"10.1.0.9"},{"dst":"fd00:8::7/64"},{"dst":"10.9.0.1/32"}]`, "", ""},
			{"IP alone", "", "", "IP=10.1.0.7/24"},
			{"IP and GATEWAY", `,"addresses":[]`, "", "IgnoreUnknown=1;K8S_POD_NAME=p;IP=10.1.0.7/24,fd00:1::7/64;GATEWAY=10.1.0.2,fd00:1::2"},
			{"args", lan, others, ""},
			{"args and CNI_ARGS", lan, others, "IP=10.1.0.7/24;GATEWAY=10.1.0.2"},
			{"runtimeConfig", lan, others + asked, "IP=10.1.0.7/24"},
			{"empty runtimeConfig", lan, `,"runtimeConfig":{"ips":[]},"args":{"cni":{"ips":[]}}`, ""},
			{"no length", `,"addresses":[{"address":"10.1.0.5"}]`, "", ""},
			{"args without a length", lan, `,"args":{"cni":{"ips":["10.1.0.5"]}}`, ""},
			{"IP without a length", "", "", "IP=10.1.0.5"},
			{"no GATEWAY", lan, "", "GATEWAY=x"},
		} {
			add := skeltest.Call{Command: netconf.Add, ContainerID: "c1", Netns: "/run/netns/none", IfName: "eth0", Args: c.args, Path: "/none",
				Config: fmt.Sprintf(`{"cniVersion":%q,"name":"net","type":"macvlan","master":"x","ipam":{"type":"static"%s}%s}`, version, c.keys, c.more)}
			ours := add.Run(t.Context(), t, static)
			theirs, err := program(reference, add)
			if (ours.Exit == 0) != (err == nil) || err == nil && !sameJSON(t, ours.Stdout, theirs) {
				t.Errorf("%s, version %s: ours %d\n%s\ntheirs %v\n%s", c.name, version, ours.Exit, ours.Stdout, err, theirs)
			}
		}
	}
}

// program calls a program that is not held to the protocol.
func program(path string, c skeltest.Call) (stdout string, err error) {
	cmd := exec.Command(path)
	cmd.Env = []string{"CNI_COMMAND=" + string(c.Command), "CNI_CONTAINERID=" + c.ContainerID, "CNI_NETNS=" + c.Netns,
		"CNI_IFNAME=" + c.IfName, "CNI_ARGS=" + c.Args, "CNI_PATH=" + c.Path}
	cmd.Stdin = strings.NewReader(c.Config)
	out, err := cmd.Output()
	return string(out), err
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y map[string]any
	for text, into := range map[string]*map[string]any{a: &x, b: &y} {
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatal(err)
		}
		if dns, ok := (*into)["dns"].(map[string]any); ok && len(dns) == 0 {
			delete(*into, "dns") // theirs is never without
		}
	}
	return reflect.DeepEqual(x, y)
}
