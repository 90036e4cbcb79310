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
	DisableCheck           flag            `json:"disableCheck"`
	DisableGC              flag            `json:"disableGC"`
	LoadOnlyInlinedPlugins flag            `json:"loadOnlyInlinedPlugins"`
	Plugins                json.RawMessage `json:"plugins"`
}

// flag is a boolean, also as a text in any case: that is how libcni reads those of a list.
type flag bool

// UnmarshalJSON reads true, false, "true" and "false".
func (f *flag) UnmarshalJSON(data []byte) error {
	switch strings.ToLower(strings.Trim(string(data), `"`)) {
	case "true":
		*f = true
	case "false":
		*f = false
	default:
		return fmt.Errorf("expected true or false")
	}
	return nil
}

// version is that of the plugins: the newest that both sides know (SPEC 1.1.0, cniVersions).
func (l *listConf) version() string {
	known, newest := version.All.SupportedVersions(), l.CNIVersion
	for _, v := range l.CNIVersions {
		if i := slices.Index(known, v); i >= 0 && i > slices.Index(known, newest) {
			newest = v
		}
	}
	return newest
}

// plugins checks a list: its own keys, our plugins in it as a runtime would call them, and of others that
// they have a type.
func (v *validation) plugins(top members) {
	start := bytes.IndexByte(v.data, '{')
	whole := text{data: v.data, start: start, version: start}
	req := &netconf.Request{Config: v.data, Warn: func(msg string, args ...any) { v.warned(whole, msg, args) }}
	list, err := netconf.Decode[listConf](req, nil)
	v.errors(err, whole)
	for _, m := range top {
		switch m.key {
		case "cniVersion":
			whole.version = m.start
		case "type", "ipam", "dns", "ipMasq", "args", "capabilities", "runtimeConfig", "prevResult", "log":
			v.note(m.at, true, "%s: a key of a plugin: nobody reads it here, where the list's own keys are", m.key)
		}
	}
	if name := top.get("name"); name == nil {
		v.note(start, false, "name: missing")
	} else if err := netconf.CheckName(list.Name); err != nil && name.value(v.data)[0] == '"' {
		v.note(name.start, false, "name: %v", err)
	}
	plugins := top.get("plugins")
	if plugins == nil {
		v.note(start, false, "plugins: missing: a .conflist is a list of plugins")
		return
	}
	if v.data[plugins.start] != '[' {
		v.note(plugins.start, false, "plugins: expected an array of plugins")
		return
	}
	v.entries(list, plugins.start, whole.version)
}

// entries checks the plugins of a list.
func (v *validation) entries(list *listConf, start, versionAt int) {
	entries, types := membersOf(v.data, start), []string{}
	v.all = len(entries)
	most := max(1, min(maxPlugins, maxWalked/len(v.data)))
	for i, e := range entries[:min(len(entries), most)] {
		path := fmt.Sprintf("plugins[%d]", i)
		if v.data[e.start] != '{' {
			v.note(e.start, false, "%s: expected an object", path)
			continue
		}
		before := v.mine
		t := v.extract(list, e, path)
		t.version = versionAt
		v.plugin(t)
		if v.mine > before && i == 0 && v.kind == Chained {
			v.note(e.start, false, "%s: %s changes what plugins before it have made, and it is the first", path, v.name)
		}
		if m := membersOf(v.data, e.start).get("type"); m != nil && len(types) < 10 {
			types = append(types, string(m.value(v.data)))
		}
	}
	switch {
	case v.all == 0:
		v.note(start, false, "plugins: empty: expected at least one")
	case v.all > most:
		v.note(entries[most].start, false, "plugins: %d: those behind the first %d are not looked at", v.all, most)
	case v.mine == 0:
		v.note(start, false, "plugins: none is of type %q: they are of %s", v.name, strings.Join(types, ", "))
	}
}

// extract makes the configuration that a runtime would send to a plugin of the list. What it adds stands
// behind all that the plugin has, and what it replaces is blanked, so that nothing moves.
func (v *validation) extract(list *listConf, e member, path string) text {
	line, column := v.lines.Place(e.start)
	data := append(bytes.Repeat([]byte("\n"), line-1), bytes.Repeat([]byte(" "), column-1)...)
	moved := len(data) - e.start
	data = append(data, v.data[e.start:e.end-1]...)
	own := membersOf(v.data, e.start)
	for i, m := range own {
		if m.key != "name" && m.key != "cniVersion" {
			continue
		}
		v.note(m.at, true, "%s.%s: the list's counts", path, m.key)
		end := m.end
		if i < len(own)-1 {
			end += bytes.IndexByte(v.data[end:], ',') + 1
		}
		for j := m.at; j < end; j++ {
			if v.data[j] != '\n' {
				data[j+moved] = ' '
			}
		}
	}
	if last := bytes.TrimSpace(data); last[len(last)-1] != '{' && last[len(last)-1] != ',' {
		data = append(data, ',')
	}
	data = fmt.Appendf(data, `"name":%s,"cniVersion":%s}`, quoted(list.Name), quoted(list.version()))
	return text{data: data, path: path, start: e.start}
}

func quoted(s string) []byte {
	data, err := json.Marshal(s)
	if err != nil {
		panic(err) // a string always encodes
	}
	return data
}

// member is a member of an object, or an element of an array, with the offsets of what it is made of.
type member struct {
	key        string
	at         int // where the key begins; of an element, the value
	start, end int // the value
}

func (m member) value(data []byte) []byte { return data[m.start:m.end] }

type members []member

// get finds the member with a key: of several the last, which is the one that counts.
func (ms members) get(key string) *member {
	for i := range slices.Backward(ms) {
		if ms[i].key == key {
			return &ms[i]
		}
	}
	return nil
}

// membersOf lists the parts of the object or array at off of a text that is JSON.
func membersOf(data []byte, off int) members {
	off += bytes.IndexAny(data[off:], "{[")
	decoder := json.NewDecoder(bytes.NewReader(data[off:]))
	next := func() int { // the place of what comes next, behind a comma or colon
		at := off + int(decoder.InputOffset())
		return at + len(data[at:]) - len(bytes.TrimLeft(data[at:], " \t\r\n,:"))
	}
	if _, err := decoder.Token(); err != nil {
		return nil // cannot be: it is JSON
	}
	var out members
	for decoder.More() {
		m := member{at: next()}
		if data[off] == '{' {
			key, err := decoder.Token()
			if err != nil {
				return nil // cannot be
			}
			m.key, _ = key.(string)
		}
		m.start = next()
		var value json.RawMessage
		if decoder.Decode(&value) != nil {
			return nil // cannot be
		}
		m.end = off + int(decoder.InputOffset())
		out = append(out, m)
	}
	return out
}
