package device_test

import (
	"strings"
	"testing"

	"github.com/cnikit/cnikit/examples/multinet/device"
	"github.com/cnikit/cnikit/netconf"
)

func TestAssign(t *testing.T) {
	t.Parallel()
	has := device.Allocated{"a/nic": {"1", "2", "3"}, "b/nic": {"1"}}
	for name, c := range map[string]struct {
		wants []device.Want
		ids   string // separated by blanks
		err   string
	}{
		"nothing wanted":                   {[]device.Want{{}, {}}, " ", ""},
		"the n-th network gets the n-th":   {[]device.Want{{Resource: "a/nic"}, {}, {Resource: "b/nic"}, {Resource: "a/nic"}}, "1  1 2", ""},
		"what is asked for goes first":     {[]device.Want{{Resource: "a/nic"}, {Resource: "a/nic", ID: "1"}, {Resource: "a/nic"}}, "2 1 3", ""},
		"none left":                        {[]device.Want{{Resource: "b/nic"}, {Resource: "b/nic"}}, "", `no device of resource "b/nic" is left: the pod has 1`},
		"none at all":                      {[]device.Want{{Resource: "c/nic"}}, "", `no device of resource "c/nic" is left: the pod has 0`},
		"another pod's":                    {[]device.Want{{Resource: "b/nic", ID: "2"}}, "", `device "2" is not one that the pod has of resource "b/nic"`},
		"asked for twice":                  {[]device.Want{{Resource: "b/nic", ID: "1"}, {Resource: "b/nic", ID: "1"}}, "", "asked for by two networks"},
		"asked for, and then none left":    {[]device.Want{{Resource: "b/nic"}, {Resource: "b/nic", ID: "1"}}, "", "is left"},
		"without a resource, as it stands": {[]device.Want{{ID: "0000:01:00.0"}, {ID: "0000:01:00.0"}}, "0000:01:00.0 0000:01:00.0", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ids, err := has.Assign(c.wants)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) || netconf.Code(err) != netconf.CodeInvalidNetworkConfig {
					t.Fatalf("got %q, %v (code %d); expected an error with %q and code 7", ids, err, netconf.Code(err), c.err)
				}
				return
			}
			if got := strings.Join(ids, " "); err != nil || got != c.ids {
				t.Fatalf("got %q, %v; expected %q", got, err, c.ids)
			}
		})
	}
}

// FuzzAssign: whatever is wanted, no device of a resource is given twice, and none that the pod does not have.
func FuzzAssign(f *testing.F) {
	f.Add("12", "a.a1b")
	f.Fuzz(func(t *testing.T, devices, networks string) {
		has := device.Allocated{}
		for _, d := range devices {
			if !strings.ContainsRune(strings.Join(has["a"], ""), d) {
				has["a"] = append(has["a"], string(d))
			}
		}
		var wants []device.Want
		for _, n := range networks { // "a": one of a; ".": none; else: one of a by its ID
			switch n {
			case 'a':
				wants = append(wants, device.Want{Resource: "a"})
			case '.':
				wants = append(wants, device.Want{})
			default:
				wants = append(wants, device.Want{Resource: "a", ID: string(n)})
			}
		}
		ids, err := has.Assign(wants)
		if err != nil {
			return
		}
		seen := map[string]bool{}
		for i, id := range ids {
			switch {
			case wants[i].Resource == "":
				if id != "" {
					t.Fatalf("network %d got %q and wants none", i, id)
				}
				continue
			case seen[id]:
				t.Fatalf("%q is given twice: %q", id, ids)
			case id == "" || !strings.Contains(strings.Join(has["a"], ""), id):
				t.Fatalf("%q is not the pod's: %q", id, has)
			}
			seen[id] = true
		}
	})
}
