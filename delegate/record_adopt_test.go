package delegate_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/netconf"
)

// What another program has attached is detached as if Add had made it: in reverse, with the results that are known.
func TestAdopt(t *testing.T) {
	t.Parallel()
	s, r := &spy{}, records(t)
	set := four(t, s)
	const result = `{"cniVersion":"1.1.0","ips":[{"address":"10.1.2.3/24"}],"vendor":9007199254740993}`
	set.Attachments[1].Result = json.RawMessage(result)
	set.Attachments[2].Result = json.RawMessage(`{"cniVersion":"1.1.0","ips":[null]}`)
	err := r.Adopt(t.Context(), set.Attachments, attach(t))
	if netconf.Code(err) != netconf.CodeBadStore || netconf.IsUnchanged(err) {
		t.Errorf("%v: the record is there, and one result is none", err)
	}
	if got := s.said(); got != "" {
		t.Errorf("%s was called: others have made it", got)
	}
	if err := r.Adopt(t.Context(), set.Attachments, attach(t)); !errors.Is(err, netconf.ErrExists) {
		t.Errorf("%v: expected that it exists", err)
	}
	if err := r.Del(t.Context(), set.Plugins, bare(t)); err != nil {
		t.Error(err)
	}
	prev := map[string]string{}
	for _, c := range s.calls {
		prev[c.plugin] = key(t, c.config, "prevResult")
	}
	if got := s.said(); got != "e DEL, d DEL, c DEL, b DEL, a DEL" {
		t.Error(got)
	}
	same(t, prev["b"], result)
	if prev["a"] != "" || prev["c"] != "" {
		t.Errorf("prevResults %q", prev)
	}
	wantNames(t, r)
}

// What Add would refuse is refused, and leaves nothing.
func TestAdoptRefuses(t *testing.T) {
	t.Parallel()
	s, r := &spy{}, records(t)
	twice := four(t, s).Attachments
	twice[1].IfName = twice[0].IfName
	for name, attachments := range map[string][]delegate.Attachment{"none": nil, "twice": twice} {
		if err := r.Adopt(t.Context(), attachments, attach(t)); netconf.Code(err) != netconf.CodeInvalidNetworkConfig || !netconf.IsUnchanged(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	wantNames(t, r)
}

// Whoever has work before Add is told beforehand what Add would say of a record that is there, damaged or not.
func TestUnattached(t *testing.T) {
	t.Parallel()
	s, r := &spy{}, records(t)
	req := attach(t)
	if err := r.Unattached(req); err != nil {
		t.Error(err)
	}
	add(t, r, four(t, s), req)
	_, want := r.Add(t.Context(), four(t, s), req)
	if err := r.Unattached(req); !errors.Is(err, netconf.ErrExists) || !netconf.IsUnchanged(err) || err.Error() != want.Error() {
		t.Errorf("%v: expected %v", err, want)
	}
	if err := os.WriteFile(filepath.Join(r.Dir, file), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := r.Unattached(req); !errors.Is(err, netconf.ErrExists) {
		t.Error(err)
	}
	other := attach(t)
	other.ContainerID = "c2"
	if err := r.Unattached(other); err != nil {
		t.Error(err)
	}
	other.ContainerID = "../c2"
	if err := r.Unattached(other); netconf.Code(err) != netconf.CodeInvalidEnvironment {
		t.Error(err)
	}
	if err := (delegate.Records{}).Unattached(req); netconf.Code(err) != netconf.CodeBadStore {
		t.Error(err)
	}
}
