package ipam_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/ipam"
	"github.com/cnikit/cnikit/netconf"
)

// Whatever stands in the section and in CNI_ARGS: an ADD gives addresses that pass what an IPAM plugin's answer is held
// to, can be printed, and pass its CHECK; or it gives nothing, and the code says whose mistake it is.
func FuzzStatic(f *testing.F) {
	f.Add(`{"addresses":[{"address":"10.0.0.5/24","gateway":"10.0.0.1"},{"address":"fd00::5/64"}],"routes":[{"dst":"0.0.0.0/0"}]}`, "10.0.0.7/24,fd00::7/64", "10.0.0.2")
	f.Add(`{"addresses":[{"address":"::ffff:10.0.0.5/120"},{"address":"0.0.0.0/0"},{}],"routes":[{"dst":"::/0","gw":"10.0.0.1","mtu":-1}]}`, "", "fe80::1")
	f.Add(`{"addresses":[null,{"address":"10.0.0.5/32"}],"routes":[null],"dns":null}`, ",", ",")
	f.Add(`{"ADDRESSES":[{"Address":"10.0.0.5/8"}],"dns":{"search":["a"]}}`, " 10.0.0.7/31 ", "10.0.0.6")
	f.Fuzz(func(t *testing.T, section, ip, gateway string) {
		config := `{"cniVersion":"1.1.0","name":"net","type":"main","ipam":` + section + `}`
		env := map[string]string{"CNI_COMMAND": "ADD", "CNI_CONTAINERID": "c1", "CNI_NETNS": "/run/netns/none", "CNI_IFNAME": "eth0"}
		req, err := netconf.Parse(func(key string) string { return env[key] }, strings.NewReader(config))
		if err != nil {
			return
		}
		req.Args = netconf.Args{}
		for key, value := range map[string]string{"IP": ip, "GATEWAY": gateway} {
			if value != "" {
				req.Args[key] = value
			}
		}
		do := ipam.StaticInProcess().Do
		if err := do(t.Context(), req); err != nil {
			if code := netconf.Code(err); code != 4 && code != 6 && code != 7 || !netconf.IsUnchanged(err) || words(req.Result) != "" {
				t.Fatalf("code %d: %v, given %s", code, err, words(req.Result))
			}
			return
		}
		var out bytes.Buffer
		if err := req.EncodeResult(&out); err != nil {
			t.Fatalf("%s cannot be printed: %v", words(req.Result), err)
		}
		if len(req.Result.IPs) == 0 {
			t.Fatal("no address, and no error")
		}
		check := req.As(netconf.Check)
		if err := check.SetPrev(out.Bytes()); err != nil {
			t.Fatal(err)
		}
		if err := do(t.Context(), check); err != nil {
			t.Fatalf("CHECK of what ADD gave, %s: %v", out.String(), err)
		}
		again, err := netconf.ParseResult(out.Bytes(), "")
		if err != nil || words(again) != words(req.Result) {
			t.Fatalf("%v: %s is read as %s", err, words(req.Result), words(again))
		}
	})
}
