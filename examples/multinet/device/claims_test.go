package device_test

import (
	"context"
	"strings"
	"testing"

	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/cnikit/cnikit/examples/multinet/device"
	"github.com/cnikit/cnikit/examples/multinet/kube"
	"github.com/cnikit/cnikit/netconf"
)

// api has the claims by name, and the devices' attributes by driver/pool/device.
type api struct {
	claims     map[string]*kube.Claim
	attributes map[string]map[string]string
}

func (a api) Claim(_ context.Context, _, name string) (*kube.Claim, error) {
	if c := a.claims[name]; c != nil {
		return c, nil
	}
	return nil, netconf.Errorf(netconf.CodeTryAgainLater, "get resource claim: %w", kube.ErrForbidden)
}

func (a api) DeviceAttributes(_ context.Context, driver, pool, name string) (map[string]string, error) {
	return a.attributes[driver+"/"+pool+"/"+name], nil
}

func TestClaims(t *testing.T) {
	t.Parallel()
	known := api{
		claims: map[string]*kube.Claim{
			"p-nics-x7": {Devices: []kube.ClaimDevice{
				{Request: "vf", Driver: "d", Pool: "node1", Device: "b"},
				{Request: "vf", Driver: "d", Pool: "node1", Device: "b"},
				{Request: "vf", Driver: "d", Pool: "node1", Device: "a"},
				{Request: "any/fast", Driver: "d", Pool: "node1", Device: "c"},
				{Request: "bare", Driver: "d", Pool: "node1", Device: "none"},
			}},
			"p-empty": {},
		},
		attributes: map[string]map[string]string{
			"d/node1/a": {"k8s.cni.cncf.io/deviceID": "0000:01:00.1"},
			"d/node1/b": {"k8s.cni.cncf.io/deviceID": "0000:01:00.2", "resource.kubernetes.io/pciBusID": "else"},
			"d/node1/c": {"resource.kubernetes.io/pciBusID": "0000:01:00.3"},
		},
	}
	claiming := *pod
	claiming.Claims = []kube.PodClaim{{Name: "nics", Claim: "p-nics-x7"}, {Name: "later"}, {Name: "secret", Claim: "secret"}, {Name: "empty", Claim: "p-empty"}}
	k := &kubelet{pods: []*podresources.PodResources{has("ns1", "p", "a/nic=1")}}
	socket := k.serve(t)
	t.Cleanup(func() { // when all have run
		if got := k.gets.Load(); got != 1 {
			t.Errorf("kubelet was asked %d times; one of the pods needs a device plugin's", got)
		}
	})
	nics := func(names ...string) (wants []device.Want) {
		for _, n := range names {
			wants = append(wants, device.Want{Resource: n})
		}
		return wants
	}
	for name, c := range map[string]struct {
		api   device.API
		wants []device.Want
		ids   string
		err   string
		code  uint
	}{
		"in the order of the allocation": {known, nics("nics/vf", "", "nics/vf"), "0000:01:00.2  0000:01:00.1", "", 0},
		"one of alternatives":            {known, nics("nics/any"), "0000:01:00.3", "", 0},
		"beside a device plugin's":       {known, nics("a/nic", "nics/vf"), "1 0000:01:00.2", "", 0},
		"more than were given":           {known, nics("nics/any", "nics/any"), "", `no device of resource "nics/any" is left`, 7},
		"a device that is shared is one": {known, nics("nics/vf", "nics/vf", "nics/vf"), "", "the pod has 2,", 7},
		"not made yet":                   {known, nics("later/x"), "", `claim "later" of the pod: it has not been made yet`, 11},
		"not allowed":                    {known, nics("secret/x"), "", kube.ErrForbidden.Error(), 11},
		"nothing given":                  {known, nics("empty/x"), "", "the pod has 0", 7},
		"no API server":                  {nil, nics("nics/vf"), "", "there is no API server", 7},
		"a device without an ID":         {known, nics("nics/bare"), "", `device "none" of driver "d" has neither`, 7},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ids, err := device.Sources{Socket: socket, Checkpoint: "/nonexistent", API: c.api}.Assign(t.Context(), &claiming, c.wants)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || netconf.Code(err) != c.code {
					t.Fatalf("got %q, %v (code %d); expected %q and code %d", ids, err, netconf.Code(err), c.err, c.code)
				}
				return
			}
			if got := strings.Join(ids, " "); err != nil || got != c.ids {
				t.Fatalf("got %q, %v; expected %q", got, err, c.ids)
			}
		})
	}
}
