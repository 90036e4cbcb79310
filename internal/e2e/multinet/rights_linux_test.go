package multinet_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/cnikit/cnikit/examples/multinet/kube"
	"github.com/cnikit/cnikit/internal/e2e/cluster"
)

// uses is what the program asks of the API, with the right that it takes: group, resource and verb of the manifest.
var uses = map[string]func(context.Context, *kube.Client, *kube.Pod) error{
	"/pods/get": func(ctx context.Context, c *kube.Client, pod *kube.Pod) error {
		_, err := c.Pod(ctx, pod.Namespace, pod.Name)
		return err
	},
	"/pods/status/patch": func(ctx context.Context, c *kube.Client, pod *kube.Pod) error {
		text := "[]"
		return c.PatchStatus(ctx, pod, map[string]*string{"k8s.v1.cni.cncf.io/network-status": &text})
	},
	"/events/create": func(ctx context.Context, c *kube.Client, pod *kube.Pod) error {
		c.Event(ctx, pod, kube.Normal, "AddedInterface", "eth0")
		return c.Flush(ctx)
	},
	"k8s.cni.cncf.io/network-attachment-definitions/get": func(ctx context.Context, c *kube.Client, _ *kube.Pod) error {
		_, err := c.Definition(ctx, "default", "none")
		return err
	},
	"resource.k8s.io/resourceclaims/get": func(ctx context.Context, c *kube.Client, _ *kube.Pod) error {
		_, err := c.Claim(ctx, "default", "none")
		return err
	},
	"resource.k8s.io/resourceslices/list": func(ctx context.Context, c *kube.Client, _ *kube.Pod) error {
		_, err := c.DeviceAttributes(ctx, "none", "none", "none")
		return err
	},
}

// The manifest has exactly the rights that the program needs: without one of them the use that it is for is forbidden,
// and no other is.
func testRights(t *testing.T, api *cluster.API) {
	c := account(t, api)
	createPod(t, api, "default", "of-rights", nil)
	pod, err := c.Pod(t.Context(), "default", "of-rights")
	if err != nil {
		t.Fatal(err)
	}
	const path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/multinet"
	var role struct {
		Rules []cluster.Rule
	}
	if err := api.Admin.Get(t.Context(), path, &role); err != nil {
		t.Fatal(err)
	}
	// agree waits until exactly the use of the missing right is forbidden.
	agree := func(missing string) {
		cluster.Eventually(t, func() error {
			for right, use := range uses {
				if err := use(t.Context(), c, pod); errors.Is(err, kube.ErrForbidden) != (right == missing) {
					return fmt.Errorf("without %q: %s: %v", missing, right, err)
				}
			}
			return nil
		})
	}
	agree("")
	seen := map[string]bool{}
	for i, rule := range role.Rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					right := group + "/" + resource + "/" + verb
					if uses[right] == nil {
						t.Errorf("the right %s is for nothing", right)
						continue
					}
					seen[right] = true
					if len(rule.APIGroups)*len(rule.Resources)*len(rule.Verbs) != 1 {
						t.Fatalf("rule %d has more than one right: %+v", i, rule)
					}
					less := append(append([]cluster.Rule{}, role.Rules[:i]...), role.Rules[i+1:]...)
					if err := api.Admin.Patch(t.Context(), path, cluster.Object{"rules": less}, nil); err != nil {
						t.Fatal(err)
					}
					agree(right)
				}
			}
		}
	}
	for right := range uses {
		if !seen[right] {
			t.Errorf("the right %s is not in the manifest", right)
		}
	}
	if err := api.Admin.Patch(t.Context(), path, cluster.Object{"rules": role.Rules}, nil); err != nil {
		t.Fatal(err)
	}
	agree("")
}
