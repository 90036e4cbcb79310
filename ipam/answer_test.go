package ipam_test

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/ipam"
	"github.com/cnikit/cnikit/netconf"
)

// A program of any age serves a caller of any age: the same comes of it, and can be printed in the caller's version.
func TestAnswersOfEveryVersion(t *testing.T) {
	t.Parallel()
	const (
		oldest = `"ip4":{"ip":"10.0.0.3/24","gateway":"10.0.0.1","routes":[{"dst":"10.8.0.0/16","gw":"10.0.0.9"}]},"ip6":{"ip":"fd00::3/64","routes":[{"dst":"::/0"}]},"dns":{"nameservers":["10.0.0.1"]}`
		middle = `"ips":[{"version":"4","address":"10.0.0.3/24","gateway":"10.0.0.1"},{"version":"6","address":"fd00::3/64"}],"routes":[{"dst":"10.8.0.0/16","gw":"10.0.0.9"},{"dst":"::/0"}],"dns":{"nameservers":["10.0.0.1"]}`
		want   = "10.0.0.3/24 via 10.0.0.1, fd00::3/64, to 10.8.0.0/16 via 10.0.0.9, to ::/0"
	)
	newest := strings.NewReplacer(`"version":"4",`, "", `"version":"6",`, "").Replace(middle)
	versions := []string{"0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"}
	bodies := []string{oldest, oldest, middle, middle, middle, newest, newest}
	for i, said := range append(versions, "none, old form", "none, new form") {
		t.Run(said, func(t *testing.T) {
			t.Parallel()
			answer := "{" + append(bodies, oldest, newest)[i] + "}"
			if i < len(versions) {
				answer = `{"cniVersion":"` + said + `",` + answer[1:]
			}
			dir := program(t, book, answer)
			for _, asked := range versions {
				req, log := call(t, netconf.Add, strings.Replace(withIPAM, "1.1.0", asked, 1), dir)
				if err := ipam.FromConfig(req).Add(t.Context(), req); err != nil {
					t.Errorf("asked in %s: %v", asked, err)
					continue
				}
				if got := words(req.Result); got != want || strings.Join(req.Result.DNS.Nameservers, "") != "10.0.0.1" || log.Len() > 0 {
					t.Errorf("asked in %s: %s, DNS %v, warned %q: expected %s", asked, got, req.Result.DNS, log, want)
				}
				var out bytes.Buffer
				if err := req.EncodeResult(&out); err != nil {
					t.Errorf("asked in %s: %v", asked, err)
				}
				again, err := netconf.ParseResult(out.Bytes(), "")
				if err != nil || words(again) != want || !strings.Contains(out.String(), `"cniVersion": "`+asked+`"`) {
					t.Errorf("asked in %s: %v, printed %s", asked, err, out.String())
				}
			}
		})
	}
}

// An IPAM plugin's addresses have no interface (SPEC, section 5). One that is a place in its own list is passed over, with
// a warning, and -1 is none; one that is no place in any makes the answer none. None reaches the result (case C-RES-03).
func TestInterfaceIndexInTheAnswer(t *testing.T) {
	t.Parallel()
	const with = `"interfaces":[{"name":"eth7"},{"name":"eth0","sandbox":"/n"}],`
	for _, c := range []struct {
		interfaces, index string
		warned            bool
		word              string // in the error
	}{
		{"", ``, false, ""},
		{"", `,"interface":null`, false, ""},
		{with, ``, true, ""},
		{with, `,"interface":0`, true, ""},
		{with, `,"interface":1`, true, ""},
		{"", `,"interface":0`, false, "ips[0].interface"},
		{with, `,"interface":2`, false, "ips[0].interface"},
		{with, `,"interface":-1`, true, ""},
		{"", `,"interface":-1`, false, ""},
		{with, `,"interface":-2`, false, "ips[0].interface"},
		{"", `,"interface":99999999999999999999`, false, "ips[0].interface"},
		{with, `,"interface":"0"`, false, "ips[0].interface"},
		{with, `,"interface":0.5`, false, "ips[0].interface"},
		{with, `,"interface":true`, false, "ips[0].interface"},
		{with, `,"interface":[0]`, false, "ips[0].interface"},
		{`"interfaces":[null],`, ``, false, "interfaces[0]"},
		{`"interfaces":{},`, ``, false, "interfaces"},
	} {
		dir := program(t, book, `{"cniVersion":"1.1.0",`+c.interfaces+`"ips":[{"address":"10.0.0.3/24"`+c.index+`}]}`)
		req, log := call(t, netconf.Add, withIPAM, dir)
		err := ipam.FromConfig(req).Add(t.Context(), req)
		switch {
		case c.word == "" && (err != nil || words(req.Result) != "10.0.0.3/24" || len(req.Result.Interfaces) > 0):
			t.Errorf("%s%s: %v, %s", c.interfaces, c.index, err, words(req.Result))
		case c.word != "" && (netconf.Code(err) != 104 || !strings.Contains(err.Error(), c.word) || words(req.Result) != ""):
			t.Errorf("%s%s: code %d: %v: expected %q in it", c.interfaces, c.index, netconf.Code(err), err, c.word)
		}
		if strings.Contains(log.String(), "names interfaces") != c.warned {
			t.Errorf("%s%s: warned %q", c.interfaces, c.index, log)
		}
	}
}

// What is no answer, by its form or by how the program ended, is never taken for one, and DEL is due; an answer without
// an address says so, and names the plugin (case C-RES-05).
func TestNoAnswer(t *testing.T) {
	t.Parallel()
	const result = `{"cniVersion":"1.1.0","ips":[{"address":"10.0.0.3/24"}]}`
	for _, c := range []struct {
		said string
		fail string // with exit status 1
		code uint
		word string
	}{
		{result + result, "", 104, "more than one"},
		{result + "\nbye", "", 104, "not JSON"},
		{"hello\n" + result, "", 104, "not JSON"},
		{result, `{"code":101,"msg":"no room"}`, 104, "no room"},
		{"", `{"code":101,"msg":"no room"}`, 101, "no room"},
		{`{"cniVersion":"1.1.0","code":101,"msg":"no room"}`, "", 104, "no room"},
		{`{"cniVersion":"1.1.0","code":101,"msg":"no room"}` + result, "", 104, "more than one"},
		{result, " ", 104, "exit status 1"},
		{"", " ", 104, "exit status 1"},
		{`null`, "", 104, ""},
		{`[]`, "", 104, ""},
		{`"10.0.0.3/24"`, "", 104, ""},
		{`{"cniVersion":"2.0.0","ips":[{"address":"10.0.0.3/24"}]}`, "", 104, "2.0.0"},
		{`{"cniVersion":"0.2.0","ips":[{"address":"10.0.0.3/24"}]}`, "", 104, "ips"},
		{`{"cniVersion":"1.1.0","ip4":{"ip":"10.0.0.3/24"}}`, "", 104, "ip4"},
		{`{}`, "", 104, "no address"},
		{`{"cniVersion":"1.1.0","ips":[]}`, "", 104, "no address"},
		{`{"cniVersion":"1.1.0","ips":null}`, "", 104, "no address"},
		{`{"cniVersion":"0.2.0"}`, "", 104, "no address"},
		{`{"cniVersion":"0.2.0","dns":{"nameservers":["10.0.0.1"]}}`, "", 104, "no address"},
		{`{"cniVersion":"1.1.0","routes":[{"dst":"0.0.0.0/0","gw":"10.0.0.1"}]}`, "", 104, "no address"},
		{`{"cniVersion":"1.1.0","ips":[{}]}`, "", 104, "ips[0].address"},
		{`{"cniVersion":"1.1.0","ips":[{"address":"10.0.0.3"}]}`, "", 104, "ips[0].address"},
		{`{"cniVersion":"1.1.0","ips":[{"address":"10.0.0.3/24"}],"routes":[{}]}`, "", 104, "routes[0].dst"},
		{`{"cniVersion":"1.1.0","ips":[{"address":"10.0.0.3/24"}],"routes":[null]}`, "", 104, "routes[0]"},
	} {
		dir := program(t, book, c.said)
		if c.fail != "" {
			write(t, filepath.Join(dir, "fail.ADD"), c.fail)
		}
		req, _ := call(t, netconf.Add, withIPAM, dir)
		err := ipam.FromConfig(req).Add(t.Context(), req)
		if netconf.Code(err) != c.code || !strings.Contains(err.Error(), c.word) || !strings.Contains(err.Error(), `"fake" ADD`) {
			t.Errorf("%s %s: code %d: %v: expected %q in it", c.said, c.fail, netconf.Code(err), err, c.word)
		}
		if netconf.IsUnchanged(err) || words(req.Result) != "" || !req.Result.DNS.IsEmpty() || len(leases(t, dir)) != 1 {
			t.Errorf("%s %s: taken %s, or no DEL is asked for: %v", c.said, c.fail, words(req.Result), err)
		}
	}
}

// An error goes into logs and events: of very much that is wrong, the first 20 are told.
func TestAnswerWithVeryManyErrors(t *testing.T) {
	t.Parallel()
	dir := program(t, book, `{"ips":[{"address":"10.0.0.3/24"}`+strings.Repeat(`,{"address":"10.0.0.3/24","gateway":"fd00::1"}`, 5000)+`]}`)
	req, _ := call(t, netconf.Add, withIPAM, dir)
	if err := ipam.FromConfig(req).Add(t.Context(), req); netconf.Code(err) != 104 || strings.Count(err.Error(), "; ") != 19 {
		t.Errorf("code %d, %d errors: %.200v", netconf.Code(err), strings.Count(err.Error(), "; ")+1, err)
	}
}
