package netconf_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/netconf"
)

func addr(t testing.TB, s string) (a netconf.Addr) {
	t.Helper()
	if err := a.UnmarshalText([]byte(s)); err != nil {
		t.Fatal(err)
	}
	return a
}

func prefix(t testing.TB, s string) (p netconf.Prefix) {
	t.Helper()
	if err := p.UnmarshalText([]byte(s)); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestRuntime(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		config string
		want   netconf.RuntimeConfig
	}{
		{`{}`, netconf.RuntimeConfig{}},
		{`null`, netconf.RuntimeConfig{}},
		{`{"portMappings":null,"ips":null,"mac":null,"bandwidth":null,"dns":null,"aliases":null,"infinibandGUID":null,"deviceID":null}`, netconf.RuntimeConfig{}},
		{`{"portMappings":[],"ips":[],"ipRanges":[],"mac":"","infinibandGUID":"","aliases":[]}`, netconf.RuntimeConfig{IPRanges: [][]netconf.IPRange{}, Aliases: []string{}}},
		{`{"portMappings":[{"hostPort":8080,"containerPort":80},{"hostPort":8080,"containerPort":80,"protocol":"UDP","hostIP":"10.0.0.1"},{"hostPort":65535,"containerPort":1,"protocol":"sctp","hostIP":""},{"hostPort":8080,"containerPort":80,"protocol":"TCP"}]}`,
			netconf.RuntimeConfig{PortMappings: []netconf.PortMapping{{HostPort: 8080, ContainerPort: 80, Protocol: "tcp"}, {HostPort: 8080, ContainerPort: 80, Protocol: "udp", HostIP: addr(t, "10.0.0.1")}, {HostPort: 65535, ContainerPort: 1, Protocol: "sctp"}}}},
		{`{"portMappings":[{"hostPort":80,"containerPort":80,"hostIP":"10.0.0.1"},{"hostPort":80,"containerPort":81,"hostIP":"::1"}]}`,
			netconf.RuntimeConfig{PortMappings: []netconf.PortMapping{{HostPort: 80, ContainerPort: 80, Protocol: "tcp", HostIP: addr(t, "10.0.0.1")}, {HostPort: 80, ContainerPort: 81, Protocol: "tcp", HostIP: addr(t, "::1")}}}},
		{`{"ipRanges":[[{"subnet":"10.1.2.0/24","rangeStart":"10.1.2.3","rangeEnd":"10.1.2.99","gateway":"10.1.2.254"},{"subnet":"10.2.0.0/16"}],[{"subnet":"fd00::/64"}]]}`,
			netconf.RuntimeConfig{IPRanges: [][]netconf.IPRange{
				{{Subnet: prefix(t, "10.1.2.0/24"), RangeStart: addr(t, "10.1.2.3"), RangeEnd: addr(t, "10.1.2.99"), Gateway: addr(t, "10.1.2.254")}, {Subnet: prefix(t, "10.2.0.0/16")}}, {{Subnet: prefix(t, "fd00::/64")}}}}},
		{`{"bandwidth":{"ingressRate":2048,"ingressBurst":1600,"egressRate":"10M","egressBurst":4294967295}}`,
			netconf.RuntimeConfig{Bandwidth: &netconf.Bandwidth{IngressRate: 2048, IngressBurst: 1600, EgressRate: 10_000_000, EgressBurst: 4294967295}}},
		{`{"bandwidth":{"ingressRate":10000000,"ingressBurst":34359738359}}`, // CRI-O's, for every pod that is shaped
			netconf.RuntimeConfig{Bandwidth: &netconf.Bandwidth{IngressRate: 10_000_000, IngressBurst: 34359738359}}},
		{`{"bandwidth":{"ingressRate":1000}}`, netconf.RuntimeConfig{Bandwidth: &netconf.Bandwidth{IngressRate: 1000}}},
		{`{"bandwidth":{}}`, netconf.RuntimeConfig{Bandwidth: &netconf.Bandwidth{}}},
		{`{"dns":{"servers":["8.8.8.8"],"searches":["a.b"],"options":["ndots:5"]}}`, netconf.RuntimeConfig{DNS: &netconf.RuntimeDNS{Servers: []string{"8.8.8.8"}, Searches: []string{"a.b"}, Options: []string{"ndots:5"}}}},
		{`{"aliases":["a","b"]}`, netconf.RuntimeConfig{Aliases: []string{"a", "b"}}},
		{`{"aliases":{"n":["a"],"other":["b"]}}`, netconf.RuntimeConfig{Aliases: []string{"a"}}},
		{`{"aliases":{"other":["b"]}}`, netconf.RuntimeConfig{}},
		{`{"infinibandGUID":"C2:11:22:33:44:55:66:77"}`, netconf.RuntimeConfig{InfinibandGUID: "c2:11:22:33:44:55:66:77"}},
		{`{"deviceID":"0000:04:00.5","cgroupPath":"/kubelet.slice/x.slice"}`, netconf.RuntimeConfig{DeviceID: "0000:04:00.5", CgroupPath: "/kubelet.slice/x.slice"}},
		{`{"io.kubernetes.cri.pod-annotations":{"a/b":"c"}}`, netconf.RuntimeConfig{PodAnnotations: map[string]string{"a/b": "c"}}},
		{`{"Mac":"x","vendor":{"n":9007199254740993}}`, netconf.RuntimeConfig{Other: map[string]json.RawMessage{"Mac": json.RawMessage(`"x"`), "vendor": json.RawMessage(`{"n":9007199254740993}`)}}},
		{`{"mac":"02:00:00:00:00:01","mac":"02:00:00:00:00:02"}`, netconf.RuntimeConfig{MAC: netconf.MAC{2, 0, 0, 0, 0, 2}}},
	} {
		req := ask(t, `,"runtimeConfig":`+c.config, "")
		got := req.Runtime()
		if err := req.Rejected(); err != nil || !reflect.DeepEqual(*got, c.want) {
			t.Errorf("%s: %v\n got %+v\nwant %+v", c.config, err, *got, c.want)
		}
		if req.Runtime() != got {
			t.Errorf("%s: decoded twice", c.config)
		}
		if n := len(ask(t, `,"runtimeConfig":`+c.config, "").Network.RuntimeConfig); len(req.Network.RuntimeConfig) != n {
			t.Errorf("%s: the request has lost a key", c.config)
		}
	}
	if got := ask(t, "", "").Runtime(); !reflect.DeepEqual(*got, netconf.RuntimeConfig{}) {
		t.Errorf("none: %+v", got)
	}
}

func TestRuntimeErrors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		config string
		code   uint
		words  string
	}{
		{`{"portMappings":{}}`, 6, "runtimeConfig.portMappings (line 2, column 33): expected an array, got an object"},
		{`{"portMappings":["80:80"]}`, 6, "runtimeConfig.portMappings[0] (line 2, column 34): expected an object, got a string"},
		{`{"portMappings":[null]}`, 7, "runtimeConfig.portMappings[0].hostPort: 0 is no port|[0].containerPort: 0 is no port"},
		{`{"portMappings":[{"hostPort":0,"containerPort":80}]}`, 7, "runtimeConfig.portMappings[0].hostPort (line 2, column 46): 0 is no port: expected 1 to 65535"},
		{`{"portMappings":[{"hostPort":-1,"containerPort":80}]}`, 7, "-1 is no port"},
		{`{"portMappings":[{"hostPort":80,"containerPort":70000}]}`, 7, "portMappings[0].containerPort (line 2, column 65): 70000 is no port"},
		{`{"portMappings":[{"hostPort":80}]}`, 7, "portMappings[0].containerPort: 0 is no port"},
		{`{"portMappings":[{"hostPort":"80","containerPort":80}]}`, 6, "hostPort (line 2, column 46): expected an integer of 64 bits, got a string"},
		{`{"portMappings":[{"hostPort":80.5,"containerPort":80}]}`, 6, "got the number 80.5"},
		{`{"portMappings":[{"hostPort":8080,"containerPort":80,"protocol":"icmp"}]}`, 7, `protocol (line 2, column 81): unknown value "icmp": expected tcp, udp or sctp`},
		{`{"portMappings":[{"hostPort":8080,"containerPort":80,"protocol":"TPC"}]}`, 7, `unknown value "tpc": expected tcp, udp or sctp; did you mean "tcp"?`},
		{`{"portMappings":[{"hostPort":8080,"containerPort":80,"hostIP":"x"}]}`, 7, `hostIP (line 2, column 79): a text of 1 bytes is not an IP address`},
		{`{"portMappings":[{"hostPort":8080,"containerPort":80,"hostIP":"10.0.0.1/8"}]}`, 7, `"10.0.0.1/8" has a prefix length`},
		{`{"portMappings":[{"hostPort":8080,"containerPort":80},{"hostPort":8080,"containerPort":81}]}`, 7, `portMappings[1].hostPort (line 2, column 83): tcp port 8080 leads to container port 80 already`},
		{`{"ipRanges":[{"subnet":"10.0.0.0/8"}]}`, 6, "runtimeConfig.ipRanges[0] (line 2, column 30): expected an array, got an object"},
		{`{"ipRanges":[[]]}`, 7, "ipRanges[0] (line 2, column 30): empty"},
		{`{"ipRanges":[null]}`, 7, "ipRanges[0] (line 2, column 30): empty"},
		{`{"ipRanges":[[{}]]}`, 7, "ipRanges[0][0].subnet: missing: expected an IP prefix"},
		{`{"ipRanges":[[{"subnet":"10.0.0.1/8"}]]}`, 7, "ipRanges[0][0].subnet (line 2, column 41): 10.0.0.1/8 has a host part: expected 10.0.0.0/8"},
		{`{"ipRanges":[[{"subnet":"10.0.0.0/8"},{"subnet":"fd00::/64"}]]}`, 7, "ipRanges[0][1].subnet (line 2, column 65): fd00::/64 is of another family"},
		{`{"ipRanges":[[{"subnet":"10.0.0.0/24","rangeStart":"10.0.1.1","rangeEnd":"fd00::1","gateway":"10.1.0.1"}]]}`, 7, "rangeStart (line 2, column 68): 10.0.1.1 is not in 10.0.0.0/24|fd00::1 is not in|gateway (line 2, column 110): 10.1.0.1 is not in"},
		{`{"ipRanges":[[{"subnet":"10.0.0.0/24","rangeStart":"10.0.0.9","rangeEnd":"10.0.0.8"}]]}`, 7, "rangeEnd (line 2, column 90): 10.0.0.8 is before the start, 10.0.0.9"},
		{`{"bandwidth":5}`, 6, "runtimeConfig.bandwidth (line 2, column 30): expected an object"},
		{`{"bandwidth":{"ingressRate":-1}}`, 7, `bandwidth.ingressRate (line 2, column 45): "-1" is negative`},
		{`{"bandwidth":{"ingressRate":7,"egressRate":true}}`, 6, "bandwidth.egressRate (line 2, column 60): expected a quantity"},
		{`{"bandwidth":{"ingressRate":7}}`, 7, "7 bits per second are less than a byte"},
		{`{"bandwidth":{"egressBurst":8000}}`, 7, "egressBurst (line 2, column 45): a burst without egressRate"},
		{`{"bandwidth":{"egressRate":8000,"egressBurst":34359738360}}`, 7, "34359738360 bits are too many"},
		{`{"dns":{"servers":"8.8.8.8"}}`, 6, "dns.servers (line 2, column 35): expected an array"},
		{`{"aliases":"a"}`, 6, "aliases (line 2, column 28): expected an array, got a string"},
		{`{"aliases":{"n":"a"}}`, 6, "aliases.n (line 2, column 33): expected an array, got a string"},
		{`{"infinibandGUID":"c2:11:22:33:44:55"}`, 7, `infinibandGUID (line 2, column 35): "c2:11:22:33:44:55" is not an InfiniBand GUID`},
		{`{"infinibandGUID":"00:00:00:00:00:00:00:00"}`, 7, "is reserved"},
		{`{"infinibandGUID":"ff-ff-ff-ff-ff-ff-ff-ff"}`, 7, "is reserved"},
		{`{"deviceID":5,"cgroupPath":[]}`, 6, "deviceID (line 2, column 29): expected a string|cgroupPath (line 2, column 44): expected a string"},
		{`{"io.kubernetes.cri.pod-annotations":{"a":1}}`, 6, "runtimeConfig.io.kubernetes.cri.pod-annotations.a (line 2, column 59): expected a string"},
	} {
		t.Run(c.config, func(t *testing.T) {
			t.Parallel()
			req := ask(t, ",\n"+`"runtimeConfig":`+c.config, "")
			got := req.Runtime()
			rejected(t, req, c.code, c.words)
			if !reflect.DeepEqual(*got, netconf.RuntimeConfig{}) {
				t.Errorf("what is wrong is not left out: %+v", *got)
			}
		})
	}
}

// A mapping without an address of the host is one of all its addresses, whichever way the other says the same.
func TestAPortOfAllAddressesIsTakenOnce(t *testing.T) {
	t.Parallel()
	mapping := func(port int, ip string) string {
		return fmt.Sprintf(`{"hostPort":80,"containerPort":%d,"hostIP":%q}`, port, ip)
	}
	for _, c := range []struct {
		first, second string
		clash         bool
		same          []string // the addresses that are left if both lead to one end
	}{
		{"", "0.0.0.0", true, []string{""}}, {"", "::", true, []string{""}}, {"", "", true, []string{""}},
		{"0.0.0.0", "", true, []string{"0.0.0.0", "::"}}, {"::", "", true, []string{"::", "0.0.0.0"}},
		{"0.0.0.0", "0.0.0.0", true, []string{"0.0.0.0"}}, {"0.0.0.0", "::", false, []string{"0.0.0.0", "::"}},
		{"", "10.0.0.1", false, []string{"", "10.0.0.1"}}, {"10.0.0.1", "10.0.0.2", false, []string{"10.0.0.1", "10.0.0.2"}},
	} {
		req := ask(t, `,"runtimeConfig":{"portMappings":[`+mapping(1, c.first)+","+mapping(2, c.second)+`]}`, "")
		got := req.Runtime().PortMappings
		if err := req.Rejected(); c.clash != (err != nil) || c.clash && (netconf.Code(err) != 7 || !strings.Contains(err.Error(), "portMappings[1].hostPort")) || !c.clash && len(got) != 2 {
			t.Errorf("%q and %q: %v, %v", c.first, c.second, got, err)
		}
		req = ask(t, `,"runtimeConfig":{"portMappings":[`+mapping(1, c.first)+","+mapping(1, c.second)+`]}`, "")
		var left []string
		for _, m := range req.Runtime().PortMappings {
			ip := ""
			if m.HostIP.IsValid() {
				ip = m.HostIP.String()
			}
			left = append(left, ip)
		}
		if !slices.Equal(left, c.same) || req.Rejected() != nil {
			t.Errorf("%q and %q, to one end: %q, expected %q (%v)", c.first, c.second, left, c.same, req.Rejected())
		}
	}
}

// An address in two ranges could be given to two containers.
func TestOverlappingRangesAreRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ sets, words string }{ // no words: nothing is wrong
		{`[[{"subnet":"10.0.0.0/24"},{"subnet":"10.0.1.0/24"}],[{"subnet":"fd00::/64"},{"subnet":"10.0.2.0/24"}]]`, "family"},
		{`[[{"subnet":"10.0.0.0/24"},{"subnet":"10.0.1.0/24"}],[{"subnet":"fd00::/64"}],[{"subnet":"::/96"}]]`, ""},
		{`[[{"subnet":"10.0.0.0/24","rangeEnd":"10.0.0.9"},{"subnet":"10.0.0.0/24","rangeStart":"10.0.0.10","rangeEnd":"10.0.0.10"}],[{"subnet":"10.0.0.0/24","rangeStart":"10.0.0.11"}]]`, ""},
		{`[[{"subnet":"10.0.0.0/24"},{"subnet":"10.0.0.0/24"}]]`, "ipRanges[0][1] (line 2, column 56): 10.0.0.0 to 10.0.0.255 overlaps with runtimeConfig.ipRanges[0][0], 10.0.0.0 to 10.0.0.255"},
		{`[[{"subnet":"10.0.0.128/25"},{"subnet":"10.0.0.0/24"}]]`, "ipRanges[0][1]"},
		{`[[{"subnet":"10.0.0.0/24"}],[{"subnet":"10.0.0.0/24","rangeStart":"10.0.0.255"}]]`, "ipRanges[1][0]"},
		{`[[{"subnet":"10.0.0.0/24","rangeEnd":"10.0.0.9"}],[{"subnet":"10.0.0.0/25","rangeStart":"10.0.0.9"}]]`, "ipRanges[1][0] "},
		{`[[{"subnet":"10.0.0.0/8"},{"subnet":"10.0.0.0/24"},{"subnet":"10.0.5.0/24"}],[{"subnet":"fd00::/8"}],[{"subnet":"fd01::/16"}]]`, "[0][1]|[0][2]|[2][0] (line 2, column 131): fd01:: to fd01:ffff:ffff:ffff:ffff:ffff:ffff:ffff overlaps with runtimeConfig.ipRanges[1][0], fd00::"},
		{`[[` + strings.Repeat(`{"subnet":"10.0.0.1/32"},`, 1000) + `{"subnet":"10.0.0.2/32"}]]`, "ipRanges[0][19]"},
		{`[[` + many(1000, `{"subnet":"10.%d.%d.0/24"}`) + `]]`, ""},
		{`[[` + many(1001, `{"subnet":"10.%d.%d.0/24"}`) + `]]`, "ipRanges[0][1000] (line 2, column 26591): more than 1000 ranges"},
	} {
		req := ask(t, ",\n"+`"runtimeConfig":{"ipRanges":`+c.sets+"}", "")
		got := req.Runtime().IPRanges
		switch {
		case c.words != "":
			rejected(t, req, 7, c.words)
			if got != nil {
				t.Errorf("%s: %v", c.sets, got)
			}
		case req.Rejected() != nil || got == nil:
			t.Errorf("%s: %v", c.sets, req.Rejected())
		}
	}
}

// many joins n texts that have a number each, in two parts.
func many(n int, format string) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(format, i/256, i%256))
	}
	return strings.Join(all, ",")
}

// One bad key leaves the others, and very many errors are cut.
func TestRuntimeKeepsTheRest(t *testing.T) {
	t.Parallel()
	req := ask(t, `,"runtimeConfig":{"mac":5,"ips":["x"],"deviceID":"d","portMappings":[`+strings.Repeat(`{},`, 2000)+`{}]}`, "")
	c := req.Runtime()
	if c.DeviceID != "d" || c.MAC != nil || c.IPs != nil || c.PortMappings != nil {
		t.Errorf("%+v", c)
	}
	rejected(t, req, 7, "runtimeConfig.portMappings[9].containerPort|runtimeConfig.mac|runtimeConfig.ips[0]")
	if n := len(req.Rejected().Error()); n > 5000 {
		t.Errorf("%d bytes of error", n)
	}
}

// A call that asks for nothing of it does not fail for it.
func TestRuntimeIsReadOnDemand(t *testing.T) {
	t.Parallel()
	req := ask(t, `,"runtimeConfig":{"portMappings":"x","mac":"02:00:00:00:00:01"}`, "")
	if m := req.MAC(nil); m == nil || req.Rejected() != nil {
		t.Errorf("%v, %v", m, req.Rejected())
	}
}
