package skeltest_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// hosts is a step of one's own: it keeps a file for each container, which says to a daemon that it is there. It announces
// each change by netconf.Before: that is where Walk breaks it.
type hosts struct{ dir string }

func (h hosts) file(req *netconf.Request) string {
	return filepath.Join(h.dir, req.ContainerID+"-"+req.IfName)
}

func (h hosts) Add(ctx context.Context, req *netconf.Request) error {
	if _, err := os.Stat(h.file(req)); err == nil {
		return fmt.Errorf("%q: %w", h.file(req), netconf.ErrExists)
	}
	if err := netconf.Before(ctx, "write "+h.file(req)); err != nil {
		return err
	}
	return os.WriteFile(h.file(req), []byte(req.Netns), 0o600)
}

func (h hosts) Check(_ context.Context, req *netconf.Request) error {
	if _, err := os.Stat(h.file(req)); err != nil {
		return fmt.Errorf("%w: %w", netconf.ErrDifferent, err)
	}
	return nil
}

func (h hosts) Del(ctx context.Context, req *netconf.Request) error {
	if err := netconf.Before(ctx, "remove "+h.file(req)); err != nil {
		return err
	}
	if err := os.Remove(h.file(req)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// whateverFails is the body of a test. What is compared is namespace and host, and what the function at the end lists.
func whateverFails(t *testing.T) {
	dir, ns := t.TempDir(), skeltest.NewNS(t)
	plugin := skel.Plugin[struct{}]{Name: "mine", Steps: func(*netconf.Request, *struct{}) skel.Steps {
		return skel.Steps{link.Veth{}, hosts{dir}}
	}}
	add := skeltest.Call{
		Command: netconf.Add, ContainerID: "c1", Netns: ns.Path, IfName: "eth0",
		Config: `{"cniVersion": "1.1.0", "name": "net", "type": "mine"}`,
	}
	operations := skeltest.Walk(t, plugin, add, ns, func() []string {
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil {
			t.Error(err)
		}
		return files
	})
	if operations < 2 {
		t.Errorf("ADD has %d operations: a step does not call netconf.Before", operations)
	}
}

// ADD and DEL of two steps fail, panic and are cancelled at each of their operations: nothing is left, and nothing that
// lives is harmed.
func ExampleWalk() {
	_ = func(t *testing.T) { whateverFails(t) } // TestWhateverFailsNothingIsLeft
}
