package skeltest

import (
	"encoding/json"
	"maps"
	"slices"

	"github.com/cnikit/cnikit/skel"
)

// WithIPAM puts the test IPAM plugin into the configuration of all containers that come, or ends the check, as not
// applicable, where the configuration has no IPAM plugin. Of a plugin that has others called (Meta) it may be in a delegate's
// configuration, at any depth: the first one is taken.
func (b *Bench) WithIPAM() *IPAM {
	b.Helper()
	if b.ipam() == "" {
		b.Skip("the configuration names no IPAM plugin for the plugin to call")
	}
	i := NewIPAM(b)
	b.paths = append(b.paths, i.Path)
	b.setIPAM(`{"type":"test-ipam"}`)
	return i
}

// ipam is the section of the configuration that names the IPAM plugin which the plugin, or its delegate, calls; "" if none
// does.
func (b *Bench) ipam() string {
	if b.Kind == skel.IPAM {
		return ""
	}
	section, _ := b.inIPAM(b.Base, "{}")
	return section
}

// setIPAM puts another section in its place.
func (b *Bench) setIPAM(section string) { _, b.Base = b.inIPAM(b.Base, section) }

// inIPAM finds the section in a part of the configuration, and returns it, and the part with another in its place.
func (b *Bench) inIPAM(part, other string) (section, changed string) {
	b.Helper()
	var object map[string]json.RawMessage
	if json.Unmarshal([]byte(part), &object) == nil {
		var is struct{ Type string }
		if json.Unmarshal(object["ipam"], &is) == nil && is.Type != "" {
			return string(object["ipam"]), b.Set(part, "ipam", other)
		}
		for _, key := range slices.Sorted(maps.Keys(object)) {
			if section, changed = b.inIPAM(string(object[key]), other); section != "" && b.Kind == skel.Meta && key != "prevResult" {
				return section, b.Set(part, key, changed)
			}
		}
	}
	var list []json.RawMessage
	if json.Unmarshal([]byte(part), &list) == nil {
		for i := range list {
			if section, changed = b.inIPAM(string(list[i]), other); section != "" {
				list[i] = json.RawMessage(changed)
				whole, err := json.Marshal(list)
				if err != nil {
					b.Fatal(err)
				}
				return section, string(whole)
			}
		}
	}
	return "", part
}
