package delegate_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/netconf"
)

// What a plugin answers reaches the next one as it is, with what nobody here knows, in the network's version; and so
// it is in the end.
func TestPrevResultIsThreadedWhole(t *testing.T) {
	t.Parallel()
	const answer = `{"cniVersion":"%s","vendor":9007199254740993,"interfaces":[{"name":"eth0","sandbox":"/n","vlan":7}],"ips":[{"version":"4","address":"10.0.0.3/24","interface":0,"lease":1}]}`
	for _, version := range []string{"0.3.1", "0.4.0", "1.0.0", "1.1.0"} {
		said := fmt.Sprintf(answer, version)
		for conf, same := range map[string]bool{version: true, "1.1.0": version == "1.1.0", "0.4.0": version == "0.4.0"} {
			s := &spy{}
			n := parse(t, `{"cniVersion":"`+conf+`","name":"lan","plugins":[{"type":"fake"},{"type":"b"}]}`)
			result, err := n.Add(t.Context(), s.plugins("b"), attach(t, program(t, "echo '"+said+"'")))
			if err != nil {
				t.Fatal(err)
			}
			prev := key(t, s.calls[0].config, "prevResult")
			if same && prev != said {
				t.Errorf("%s in %s: %s", version, conf, prev)
			}
			for _, text := range []string{prev, string(result.JSON)} {
				for _, want := range []string{`"cniVersion":"` + conf + `"`, `"vendor":9007199254740993`, `"vlan":7`, `"lease":1`} {
					if !strings.Contains(squeeze(text), want) {
						t.Errorf("%s in %s: %s: expected %s", version, conf, text, want)
					}
				}
			}
		}
	}
}

func squeeze(s string) string { return strings.Join(strings.Fields(s), "") }

// An answer that names no version gets one, or a record of it could not be read.
func TestResultHasItsVersion(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ conf, answer, version string }{
		{"1.1.0", `{"ips":[{"address":"10.0.0.3/24"}],"x":1}`, "1.1.0"},
		{"1.1.0", `{"ip4":{"ip":"10.0.0.3/24"},"x":1}`, "1.1.0"},
		{"0.2.0", `{"ip4":{"ip":"10.0.0.3/24"},"x":1}`, "0.2.0"},
		{"0.2.0", `{"ips":[{"address":"10.0.0.3/24"}],"x":1}`, "0.2.0"},
		{"0.2.0", `{"ips":[{"address":"10.0.0.3/24"},{"address":"10.0.0.4/24"}],"x":1}`, "0.4.0"},
		{"0.1.0", `{"x":1}`, "0.1.0"},
	} {
		n := parse(t, `{"cniVersion":"`+c.conf+`","name":"lan","type":"fake"}`)
		result, err := n.Add(t.Context(), nil, attach(t, program(t, "echo '"+c.answer+"'")))
		if err != nil {
			t.Errorf("%s: %v", c.answer, err)
			continue
		}
		again, err := netconf.ParseResult(result.JSON, "")
		if key(t, string(result.JSON), "cniVersion") != `"`+c.version+`"` || key(t, string(result.JSON), "x") != "1" || err != nil || len(again.IPs) != len(result.IPs) {
			t.Errorf("%s in %s: %s, %v", c.answer, c.conf, result.JSON, err)
		}
	}
}

// An answer that the next plugin cannot get is an error, with the way back.
func TestResultThatIsNoPrevResult(t *testing.T) {
	t.Parallel()
	s := &spy{}
	dir := program(t, `echo $CNI_COMMAND >> "$0.verbs"; echo '{"cniVersion":"1.0.0","interfaces":[{"name":"eth0"}]}'`)
	n := parse(t, `{"cniVersion":"0.2.0","name":"lan","plugins":[{"type":"fake"},{"type":"b"}]}`)
	_, err := n.Add(t.Context(), s.plugins("b"), attach(t, dir))
	wants(t, err, 7, "plugins[0]", "prevResult", "0.2.0")
	if verbs := read(t, filepath.Join(dir, "fake.verbs")); verbs != "ADD\nDEL\n" || s.said() != "" {
		t.Errorf("%q", verbs)
	}
}

// A list that is added to what is there begins with that.
func TestAddToWhatIsThere(t *testing.T) {
	t.Parallel()
	s := &spy{}
	r, req := s.plugins("a", "b", "c"), attach(t)
	first, err := parse(t, `{"cniVersion":"0.4.0","name":"lan","type":"a"}`).Add(t.Context(), r, req)
	if err != nil {
		t.Fatal(err)
	}
	if err := req.SetPrev(first.JSON); err != nil {
		t.Fatal(err)
	}
	last, err := parse(t, `{"cniVersion":"1.1.0","name":"more","type":"b"}`).Add(t.Context(), r, req)
	if err != nil || len(last.Interfaces) != 2 {
		t.Errorf("%+v, %v", last.Result, err)
	}
}

// Two texts and the attachment's names are all that CHECK and DEL need, in another process and years later.
func TestFromARecord(t *testing.T) {
	t.Parallel()
	s := &spy{}
	r := s.plugins("a", "b")
	n := parse(t, `{"cniVersion":"0.4.0","cniVersions":["1.0.0"],"name":"lan","plugins":[{"type":"a","n":9007199254740993,"capabilities":{"x":true}},{"type":"b"}]}`)
	req := attach(t)
	result, err := n.Add(t.Context(), r, req)
	if err != nil {
		t.Fatal(err)
	}
	s.said()
	if err := req.SetPrev(result.JSON); err != nil {
		t.Fatal(err)
	}
	if err := n.Del(t.Context(), r, req); err != nil {
		t.Fatal(err)
	}
	want := s.calls
	s.calls = nil

	network, err := n.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	args, err := netconf.ParseArgs(req.Args.String())
	if err != nil {
		t.Fatal(err)
	}
	later := &netconf.Request{ContainerID: req.ContainerID, Netns: req.Netns, IfName: req.IfName, Args: args, Path: req.Path, Environ: req.Environ,
		Network: netconf.Network{RuntimeConfig: req.Network.RuntimeConfig}}
	if err := later.SetPrev(result.JSON); err != nil {
		t.Fatal(err)
	}
	if err := parse(t, string(network)).Del(t.Context(), r, later); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(s.calls) != "[b DEL a DEL]" || len(want) != 2 {
		t.Fatalf("%v, %v", s.calls, want)
	}
	for i, c := range s.calls {
		if same(t, c.config, want[i].config); fmt.Sprint(c.env) != fmt.Sprint(want[i].env) {
			t.Errorf("%s\n%v\n%v", c, c.env, want[i].env)
		}
	}
}
