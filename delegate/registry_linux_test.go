package delegate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

// Which plugins are Go values is a switch for each type; the others are programs.
func TestRegistry(t *testing.T) {
	t.Parallel()
	s := &spy{}
	all := s.plugins("a", "b", "c")
	all["d"] = nil
	for _, c := range []struct {
		name string
		r    delegate.Registry
		want string // the Go values
	}{
		{"all", all, "a b c"}, {"only", all.Only("b", "d", "x"), "b"}, {"none", all.Only(), ""}, {"without", all.Without("b", "x"), "a c"}, {"nil", nil, ""},
		{"nil without", delegate.Registry(nil).Without("a"), ""}, {"nil only", delegate.Registry(nil).Only("a"), ""},
	} {
		var got []string
		for _, name := range []string{"a", "b", "c", "d", "x"} {
			switch p := c.r.Plugin(name).(type) {
			case delegate.InProcess:
				got = append(got, name)
				if p.Type != name {
					t.Errorf("%+v", p)
				}
			case delegate.Exec:
				if p.Type != name {
					t.Errorf("%+v", p)
				}
			}
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	if len(all) != 4 {
		t.Error("the registry was changed")
	}
	_, err := delegate.Registry(nil).Plugin("a/b").Call(t.Context(), call(t, netconf.Del, plain))
	wants(t, err, 7, "a/b")
}

// twin is a plugin that runs as a program and as a Go value; its configuration says how it answers.
func twin(runDir string) skel.Plugin[twinConfig] {
	return skel.Plugin[twinConfig]{Name: "twin", Kind: skel.Meta, RunDir: runDir, Steps: func(_ *netconf.Request, c *twinConfig) skel.Steps { return skel.Steps{c} }}
}

type twinConfig struct {
	Do string `json:"do"`
}

func (c *twinConfig) act(req *netconf.Request) error {
	switch c.Do {
	case "code":
		return netconf.Errorf(142, "its own: %w", errors.New("code"))
	case "gone":
		return netconf.Errorf(netconf.CodeUnknownContainer, "gone")
	case "plain":
		return errors.New("plain")
	case "panic":
		panic("ouch")
	case "upstream":
		return types.NewError(11, "later", "")
	case "typo":
		return req.Invalid("do", "not %q", c.Do)
	}
	return nil
}

func (c *twinConfig) Name() string { return "twin" }
func (c *twinConfig) Add(_ context.Context, req *netconf.Request) error {
	i := req.AddInterface(&types100.Interface{Name: req.IfName, Sandbox: req.Netns, Mtu: 1400})
	req.AddIP(i, net.IPNet{IP: net.IPv4(10, 0, 0, 7), Mask: net.CIDRMask(24, 32)}, net.IPv4(10, 0, 0, 1))
	if c.Do == "bad" {
		req.AddIP(i, net.IPNet{}, nil)
	}
	return c.act(req)
}
func (c *twinConfig) Check(_ context.Context, req *netconf.Request) error {
	if req.Prev == nil || len(req.Prev.Interfaces) == 0 {
		return fmt.Errorf("%w: nothing before", netconf.ErrDifferent)
	}
	return c.act(req)
}
func (c *twinConfig) Del(_ context.Context, req *netconf.Request) error {
	if c.Do == "bad" {
		return nil
	}
	return c.act(req)
}
func (c *twinConfig) GC(_ context.Context, req *netconf.Request) error     { return c.act(req) }
func (c *twinConfig) Status(_ context.Context, req *netconf.Request) error { return c.act(req) }

// A plugin answers the same as a program and as a Go value: result, code and message, in each version and verb.
func TestProgramAndGoValueAnswerTheSame(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := program(t, fmt.Sprintf("export %s=%q; exec %q", twinDir, t.TempDir(), self))
	goValue := delegate.Registry{"fake": twin(t.TempDir()).Do}
	const before = `{"cniVersion":"%s","vendor":9007199254740993,"interfaces":[{"name":"h0","vlan":7},{"name":"lo","sandbox":"/n"}],"ips":[{"version":"4","address":"10.1.0.3/24","interface":1,"lease":1}],"routes":[{"dst":"10.8.0.0/16","own":true}]}`
	for _, v := range []string{"0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0", "1.7.0", "x"} {
		for _, verb := range []netconf.Command{netconf.Add, netconf.Check, netconf.Del, netconf.GC, netconf.Status} {
			for _, do := range []string{"", "code", "gone", "plain", "panic", "upstream", "typo", "bad"} {
				if do != "" && v != "1.1.0" && v != "0.4.0" {
					continue // 40 ms each
				}
				t.Run(fmt.Sprint(v, verb, do), func(t *testing.T) {
					t.Parallel()
					config := fmt.Sprintf(`{"cniVersion":%q,"name":"net","type":"fake","do":%q}`, v, do)
					if slices.Contains([]string{"0.3.1", "0.4.0", "1.0.0", "1.1.0"}, v) && verb != netconf.GC && verb != netconf.Status {
						config = patch(t, config, "prevResult", fmt.Sprintf(before, v))
					}
					if verb == netconf.GC {
						config = patch(t, config, "cni.dev/valid-attachments", "[]")
					}
					req := &netconf.Request{Command: verb, ContainerID: "c1", Netns: fmt.Sprintf("/proc/%d/ns/net", os.Getpid()), IfName: "eth0",
						Path: []string{dir}, Environ: []string{"CNI_NETNS_OVERRIDE=1"}, Stderr: writer(func(p []byte) (int, error) { return len(p), nil })}
					req.Network, _ = netconf.ParseNetwork([]byte(config)) // good
					req.Config = req.Network.Bytes()
					if err := req.SetPrev(req.Network.PrevResult); err != nil {
						t.Fatal(err)
					}
					var answers, texts []string
					for _, r := range []delegate.Registry{nil, goValue} {
						document, err := answerOf(t, r, req)
						if netconf.IsUnchanged(err) {
							t.Errorf("%v", err)
						}
						answers, texts = append(answers, document), append(texts, fmt.Sprint(netconf.Code(err), " ", err))
					}
					if answers[0] != "" || answers[1] != "" {
						same(t, answers[1], answers[0])
					}
					// The text of a program's error has its details too, and a warning is one.
					if texts[0] = strings.ReplaceAll(texts[0], "; warning: panic", ""); texts[0] != texts[1] && !strings.HasPrefix(texts[0], texts[1]+"; supported: ") {
						t.Errorf("program:  %s\nGo value: %s", texts[0], texts[1])
					}
					if do == "" && v == "1.1.0" && verb == netconf.Add && !strings.Contains(squeeze(answers[1]), `"vlan":7`) {
						t.Errorf("%s", answers[1])
					}
				})
			}
		}
	}
}

// answerOf calls a plugin; the answer is that of an ADD, as it was printed.
func answerOf(t *testing.T, r delegate.Registry, req *netconf.Request) (string, error) {
	t.Helper()
	if req.Command != netconf.Add || !slices.Contains(version.All.SupportedVersions(), req.Network.CNIVersion) {
		_, err := r.Plugin("fake").Call(t.Context(), req)
		return "", err
	}
	n := &delegate.Network{Name: req.Network.Name, CNIVersion: req.Network.CNIVersion, Plugins: []json.RawMessage{req.Config}}
	result, err := n.Add(t.Context(), r, req)
	return string(result.JSON), err
}
