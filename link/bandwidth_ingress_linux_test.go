package link_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// TestBandwidthLeavesAnEmptyIngress: a clsact, or an ingress, that was there before and has no filter yet is somebody else's:
// it survives DEL, the rollback wherever ADD ends, and the core without a record. Ours goes in each of these.
func TestBandwidthLeavesAnEmptyIngress(t *testing.T) {
	for _, kind := range []string{"clsact", "ingress", ""} {
		t.Run("before: "+kind, func(t *testing.T) {
			step := link.Bandwidth{Egress: both.Egress}
			container, p, call := shaped(t, step)
			if kind != "" {
				skeltest.Host(t, "tc", "qdisc", "add", "dev", "vh", kind)
			}
			before := tc(t)
			same := func(after string) {
				t.Helper()
				if now := tc(t); now != before {
					t.Errorf("after %s:\n%s\nbefore:\n%s", after, now, before)
				}
			}
			a := call.Run(t.Context(), t, p).OK(t)
			call.With(netconf.Check).WithPrev(a).Run(t.Context(), t, p).OK(t)
			call.With(netconf.Del).Run(t.Context(), t, p).OK(t)
			same("DEL")
			call.Run(t.Context(), t, plugin(step, failing())).Fails(t, netconf.CodeExhausted)
			same("the rollback")
			skeltest.Walk(t, p, call, container, func() []string { return strings.Split(tc(t), "\n") })
			same("faults at each request")

			host, _ := spaces(t, container)
			o := link.Owner{Network: "net", ContainerID: "core", IfName: "eth0"}
			if _, err := step.Create(t.Context(), host, hostLink(t, "vh"), o); err != nil {
				t.Fatal(err)
			}
			if err := step.Delete(t.Context(), host, hostLink(t, "vh"), o); err != nil {
				t.Fatal(err)
			}
			same("Delete")
			skeltest.Host(t, "ip", "link", "del", "vh")
		})
	}
}

// TestBandwidthFiltersOfOthersSince: filters that somebody has put into our clsact keep it, on either side of it.
func TestBandwidthFiltersOfOthersSince(t *testing.T) {
	for _, side := range []string{"ingress", "egress"} {
		t.Run(side, func(t *testing.T) {
			_, p, call := shaped(t, both)
			call.Run(t.Context(), t, p).OK(t)
			skeltest.Host(t, "tc", "filter", "add", "dev", "vh", side, "prio", "7", "protocol", "ip", "u32", "match", "ip", "dst", "192.0.2.1", "flowid", "1:1")
			call.With(netconf.Del).Run(t.Context(), t, p).OK(t)
			if now := skeltest.Host(t, "tc", "filter", "show", "dev", "vh", side); !strings.Contains(now, "c0000201") {
				t.Errorf("filters: %s", now)
			}
			if now := skeltest.Host(t, "tc", "filter", "show", "dev", "vh", "ingress"); strings.Contains(now, "mirred") {
				t.Errorf("filters: %s", now)
			}
			skeltest.Host(t, "ip", "link", "del", "vh")
		})
	}
}

// TestBandwidthNoteOfAnotherLink: the namespace was made anew, and no DEL came. The note of the first pair is none of the second's:
// an ADD that ends between its clsact and the first filter takes that away.
func TestBandwidthNoteOfAnotherLink(t *testing.T) {
	_, p, call := shaped(t, link.Bandwidth{Egress: both.Egress})
	call.Run(t.Context(), t, p).OK(t)
	skeltest.Host(t, "ip", "link", "del", "vh")
	skeltest.Host(t, "ip", "link", "del", link.Owner{Network: "net", ContainerID: call.ContainerID, IfName: "eth0"}.IfbName())
	_, _, again := shaped(t, link.Bandwidth{Egress: both.Egress})
	again.ContainerID = call.ContainerID
	before := tc(t)
	ctx := netconf.WithFault(t.Context(), func(_ context.Context, op string) error {
		if strings.HasPrefix(op, "filter add") {
			return errors.New("broken off")
		}
		return nil
	})
	if a := again.Run(ctx, t, p); a.Exit == 0 {
		t.Error("ADD did not break off")
	}
	if now := tc(t); now != before {
		t.Errorf("%s\nbefore:\n%s", now, before)
	}
}

// TestBandwidthNoteOfAnAddThatChangedNothing: what it has written down about the clsact is not what the next ADD goes by.
func TestBandwidthNoteOfAnAddThatChangedNothing(t *testing.T) {
	_, p, call := shaped(t, both)
	skeltest.Host(t, "tc", "qdisc", "add", "dev", "vh", "root", "pfifo")
	call.Run(t.Context(), t, p).Fails(t, netconf.CodeExists)
	skeltest.Host(t, "sh", "-ec", "tc qdisc del dev vh root; tc qdisc add dev vh clsact")
	before := tc(t)
	call.Run(t.Context(), t, p).OK(t)
	call.With(netconf.Del).Run(t.Context(), t, p).OK(t)
	if now := tc(t); now != before {
		t.Errorf("%s\nbefore:\n%s", now, before)
	}
}
