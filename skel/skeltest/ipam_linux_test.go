package skeltest

import (
	"testing"

	"github.com/cnikit/cnikit/skel"
)

// The section that names the IPAM plugin is the plugin's own, or in what a plugin of the kind Meta has called.
func TestIPAMOfADelegateIsFound(t *testing.T) {
	t.Parallel()
	const ipam, other = `{"type":"a"}`, `{"type":"b"}`
	for _, test := range []struct {
		kind           skel.Kind
		config         string
		section, after string
	}{
		{skel.Interface, `{"x":1,"ipam":{"type":"a"}}`, ipam, `{"x":1,"ipam":{"type":"b"}}`},
		{skel.Interface, `{"x":{"ipam":{"type":"a"}}}`, "", ""},
		{skel.Interface, `{"ipam":{"x":1}}`, "", ""},
		{skel.Chained, `{"ipam":{"type":"a"}}`, ipam, `{"ipam":{"type":"b"}}`},
		{skel.IPAM, `{"ipam":{"type":"a"}}`, "", ""},
		{skel.Meta, `{"x":1}`, "", ""},
		{skel.Meta, `{"ipam":{"type":"a"}}`, ipam, `{"ipam":{"type":"b"}}`},
		{skel.Meta, `{"delegate":{"type":"x","ipam":{"type":"a"}}}`, ipam, `{"delegate":{"type":"x","ipam":{"type":"b"}}}`},
		{skel.Meta, `{"delegates":[{"plugins":[{"type":"x"},{"ipam":{"type":"a"}}]}]}`, ipam, `{"delegates":[{"plugins":[{"type":"x"},{"ipam":{"type":"b"}}]}]}`},
		{skel.Meta, `{"prevResult":{"ipam":{"type":"a"}},"delegate":{"ipam":7}}`, "", ""},
	} {
		b := &Bench{Target: Target{Kind: test.kind}, Base: test.config}
		if got := b.ipam(); got != test.section {
			t.Errorf("%s: found %q", test.config, got)
		}
		if test.section == "" {
			continue
		}
		if b.setIPAM(other); b.Base != test.after {
			t.Errorf("%s: changed to %s", test.config, b.Base)
		}
	}
}
