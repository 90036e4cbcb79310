package link_test

import (
	"context"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

// spoil is a step that, before the others' DEL or GC, puts data in the place of what was kept under a key.
func spoil(key, data string) skel.Step {
	put := func(kept netconf.Recorder) error {
		if was, err := kept.Load(key); err != nil || was == nil {
			return err
		}
		return kept.Save(key, []byte(data))
	}
	return skel.Funcs{Add: nothing, Check: nothing, Status: nothing,
		Del: func(_ context.Context, req *netconf.Request) error { return put(req.State) },
		GC: func(_ context.Context, req *netconf.Request) error {
			return req.State.(netconf.StaleRecorder).Each(func(_, _ string, kept netconf.Recorder) error { return put(kept) })
		},
	}.Step()
}

// TestDelWithAnEntryThatDoesNotDecode: another version of the plugin has written it. DEL failed for it, with code 105, and so did
// each that came again. It is a warning, and DEL takes away what it knows without.
func TestDelWithAnEntryThatDoesNotDecode(t *testing.T) {
	parallelNS(t)
	const lost = "what was kept cannot be read"
	for key, test := range map[string]struct {
		step  skel.Step
		knows bool // what it has made, without the entry; what was there before it does not bring back
	}{
		"link.tune.eth0":          {everything, false},
		"link.sysctls.eth0":       {link.Sysctls{Values: map[string]string{"net.ipv4.conf.IFNAME.rp_filter": "2"}}, false},
		"link.neighbours.eth0":    {neighbours("10.1.1.1 02:00:00:00:00:51"), false},
		"link.routes.eth0":        {extra(), true},
		"link.rules.container":    {link.Rules{Rules: someRules()}, true},
		"link.sourcerouting.eth0": {link.SourceRouting{}, true},
		"link.addresses.eth0":     {skel.Steps{ipam("10.1.1.2/24"), link.Addresses{}}, false},
	} {
		for _, data := range []string{"5", "{", `{"Index":"one","DAD":1}`, `{"Routes":[{"Dst":"10.7.0.0/16"}],"Rules":[],"Addresses":["10.1.1.9/24"],"Index":"one","DefaultMetric":"one"}`} {
			t.Run(key+" "+data, func(t *testing.T) {
				container, _, p, call := changer(t, test.step, spoil(key, data))
				before := layer3(container)
				call.Run(t.Context(), t, p).OK(t)
				a := call.With(netconf.Del).Run(t.Context(), t, p)
				a.OK(t)
				if !strings.Contains(a.Stderr, lost) || !strings.Contains(a.Stderr, key) {
					t.Errorf("no warning that names it: %s", a.Stderr)
				}
				if diff := before.Diff(layer3(container)); test.knows && strings.Contains(diff, "+ ") {
					t.Errorf("left behind:\n%s", diff)
				}
				a = call.With(netconf.Del).Run(t.Context(), t, p)
				a.OK(t)
				if strings.Contains(a.Stderr, lost) {
					t.Errorf("the entry stays: %s", a.Stderr)
				}
			})
		}
	}
}

// TestBandwidthDelWithAnEntryThatDoesNotDecode: all but an empty clsact is known without it.
func TestBandwidthDelWithAnEntryThatDoesNotDecode(t *testing.T) {
	_, p, call := shaped(t, skel.Steps{some(), spoil("link.bandwidth", "5")})
	before := tc(t)
	call.Run(t.Context(), t, p).OK(t)
	for range 2 {
		call.With(netconf.Del).Run(t.Context(), t, p).OK(t)
		if now := tc(t); now != before {
			t.Errorf("left behind:\n%s", now)
		}
	}
}

// TestRulesGCWithAnEntryThatDoesNotDecode: GC failed for ever, and kept what was written down of all stale attachments.
func TestRulesGCWithAnEntryThatDoesNotDecode(t *testing.T) {
	_, _, p, call := changer(t, link.Rules{OnHost: true, Rules: someRules()}, spoil("link.rules.host", "5"))
	t.Cleanup(func() { ignore(t, "ip rule flush protocol 67; ip -6 rule flush protocol 67") })
	call.Run(t.Context(), t, p).OK(t)
	gc := call.With(netconf.GC)
	gc.Prev, gc.Path = "", "/nosuch"
	gc.Config = strings.Replace(gc.Config, `"type"`, `"cni.dev/valid-attachments":[],"type"`, 1)
	for _, warned := range []bool{true, false} {
		a := gc.Run(t.Context(), t, p)
		a.OK(t)
		if strings.Contains(a.Stderr, "what was kept cannot be read") != warned {
			t.Errorf("warned %v expected, stderr %s", warned, a.Stderr)
		}
	}
}

// TestTuneKeptThatDoesNotDecode: there is an entry all the same. That it was an error failed the DEL of the plugin tuning, which
// asks whether the attachment is its own or the reference plugin's.
func TestTuneKeptThatDoesNotDecode(t *testing.T) {
	t.Parallel()
	state := memory{}
	for range 2 {
		ours, err := link.Tune{}.Kept(&netconf.Request{Command: netconf.Del, IfName: "eth0", State: state})
		if want := len(state) > 0; err != nil || ours != want {
			t.Errorf("%v, %v; expected %v", ours, err, want)
		}
		state["link.tune.eth0"] = []byte("5")
	}
}
