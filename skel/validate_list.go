package skel

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/version"

	"github.com/cnikit/cnikit/netconf"
)

// listConf is a list of plugins (SPEC, section 1).
type listConf struct {
	CNIVersion             string          `json:"cniVersion"`
	CNIVersions            []string        `json:"cniVersions"`
	Name                   string          `json:"name"`
	DisableCheck           netconf.Switch  `json:"disableCheck"`
	DisableGC              netconf.Switch  `json:"disableGC"`
	LoadOnlyInlinedPlugins netconf.Switch  `json:"loadOnlyInlinedPlugins"`
	Plugins                json.RawMessage `json:"plugins"`
}

// version is that of the plugins: the newest that both sides know (SPEC 1.1.0, cniVersions).
func (l *listConf) version() string {
	if newest := netconf.Newest(append([]string{l.CNIVersion}, l.CNIVersions...), version.All.SupportedVersions()); newest != "" {
		return newest
	}
	return l.CNIVersion
}

// plugins checks a list: its own keys, our plugins in it as a runtime would call them, and of others that
// they have a type.
func (v *validation) plugins(top members) {
	start := bytes.IndexByte(v.data, '{')
	whole := text{data: v.data, start: start, version: start}
	if m := top.get("cniVersion"); m != nil {
		whole.version = m.Start
	}
	req := &netconf.Request{Config: v.data, Warn: func(msg string, args ...any) {
		// What is in a plugin, its check tells; what is in another case is told below.
		if !strings.Contains(msg, `: key "plugins[`) && !strings.Contains(msg, `" is taken for "`) {
			v.warned(whole, msg, args)
		}
	}}
	list, err := netconf.Decode[listConf](req, nil)
	v.errors(err, whole)
	v.listKeys(list, top)
	for _, m := range top {
		switch m.Key {
		case "type", "ipam", "dns", "ipMasq", "args", "capabilities", "runtimeConfig", "prevResult", "log":
			v.note(m.At, true, "%s: a key of a plugin: nobody reads it here, where the list's own keys are", m.Key)
		}
	}
	if name := top.get("name"); name == nil {
		v.note(start, false, "name: missing")
	} else if err := netconf.CheckName(list.Name); err != nil && name.Value(v.data)[0] == '"' {
		v.note(name.Start, false, "name: %v", err)
	}
	plugins := top.get("plugins")
	if plugins == nil {
		v.note(start, false, "plugins: missing: a .conflist is a list of plugins")
		return
	}
	if v.data[plugins.Start] != '[' {
		v.note(plugins.Start, false, "plugins: expected an array of plugins")
		return
	}
	v.entries(list, plugins.Start, whole.version)
}

// listKeys checks what a runtime holds against the list's own keys, and Decode does not: they are read by their exact names
// alone (libcni's NetworkConfFromBytes), null is no value of theirs, and each of cniVersions is a version.
func (v *validation) listKeys(list *listConf, top members) {
	own := []string{"cniVersion", "cniVersions", "name", "disableCheck", "disableGC", "loadOnlyInlinedPlugins", "plugins"}
	for _, m := range top {
		switch i := slices.IndexFunc(own, func(key string) bool { return strings.EqualFold(key, m.Key) }); {
		case i < 0, m.Key != own[i] && top.get(own[i]) != nil: // Decode has said it
		case m.Key != own[i]:
			v.note(m.At, true, "key %.64q is ignored: runtimes read %q, in that case alone", m.Key, own[i])
		case string(m.Value(v.data)) == "null" && m.At == top.get(m.Key).At && m.Key != "plugins": // of that more is said
			v.note(m.Start, false, "%s: null: expected a value, or no such key", m.Key)
		}
	}
	if top.get("name") == nil {
		list.Name = ""
	}
	if top.get("cniVersion") == nil {
		list.CNIVersion = ""
	}
	versions := top.get("cniVersions")
	if versions == nil {
		list.CNIVersions = nil
		return
	}
	for i, e := range membersOf(v.data, versions.Start) {
		var s *string
		if json.Unmarshal(e.Value(v.data), &s) != nil {
			continue // Decode has said it
		}
		if s == nil {
			v.note(e.Start, false, "cniVersions[%d]: expected a string, got null", i)
		} else if _, _, _, err := version.ParseVersion(*s); err != nil || *s == "" {
			v.note(e.Start, false, "cniVersions[%d]: %.64q is no version: expected three numbers as in 1.1.0", i, *s)
			break // as many as there are, and one is enough
		}
	}
}

// entries checks the plugins of a list.
func (v *validation) entries(list *listConf, start, versionAt int) {
	entries, types := membersOf(v.data, start), []string{}
	v.all = len(entries)
	most := max(1, min(maxPlugins, maxWalked/len(v.data)))
	for i, e := range entries[:min(len(entries), most)] {
		path := fmt.Sprintf("plugins[%d]", i)
		if v.data[e.Start] != '{' {
			v.note(e.Start, false, "%s: expected an object", path)
			continue
		}
		before := v.mine
		t := v.extract(list, e, path)
		t.version = versionAt
		v.plugin(t)
		if v.mine > before && i == 0 && v.kind == Chained {
			v.note(e.Start, false, "%s: %s changes what plugins before it have made, and it is the first", path, v.name)
		}
		if m := membersOf(v.data, e.Start).get("type"); m != nil && len(types) < 10 {
			types = append(types, string(m.Value(v.data)))
		}
	}
	switch {
	case v.all == 0:
		v.note(start, false, "plugins: empty: expected at least one")
	case v.all > most:
		v.note(entries[most].Start, false, "plugins: %d: those behind the first %d are not looked at", v.all, most)
	case v.mine == 0:
		v.note(start, false, "plugins: none is of type %q: they are of %s", v.name, strings.Join(types, ", "))
	}
}

// extract makes the configuration that a runtime would send to a plugin of the list. What it adds stands
// behind all that the plugin has, and what it replaces is blanked, so that nothing moves.
func (v *validation) extract(list *listConf, e netconf.Member, path string) text {
	line, column := v.lines.Place(e.Start)
	data := append(bytes.Repeat([]byte("\n"), line-1), bytes.Repeat([]byte(" "), column-1)...)
	moved := len(data) - e.Start
	data = append(data, v.data[e.Start:e.End-1]...)
	own := membersOf(v.data, e.Start)
	for i, m := range own {
		if m.Key != "name" && m.Key != "cniVersion" {
			continue
		}
		v.note(m.At, true, "%s.%s: the list's counts", path, m.Key)
		end := m.End
		if i < len(own)-1 {
			end += bytes.IndexByte(v.data[end:], ',') + 1
		}
		for j := m.At; j < end; j++ {
			if v.data[j] != '\n' {
				data[j+moved] = ' '
			}
		}
	}
	if last := bytes.TrimSpace(data); last[len(last)-1] != '{' && last[len(last)-1] != ',' {
		data = append(data, ',')
	}
	data = fmt.Appendf(data, `"name":%s,"cniVersion":%s}`, quoted(list.Name), quoted(list.version()))
	return text{data: data, path: path, start: e.Start}
}

func quoted(s string) []byte {
	data, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string always encodes
	}
	return data
}

type members []netconf.Member

// get finds the member with a key: of several the last, which is the one that counts.
func (ms members) get(key string) *netconf.Member {
	for i := range slices.Backward(ms) {
		if ms[i].Key == key {
			return &ms[i]
		}
	}
	return nil
}

// membersOf lists the parts of the object or array at off of a text that is JSON.
func membersOf(data []byte, off int) members { return netconf.Members(data, off) }
