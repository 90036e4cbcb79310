package skel

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

// example is a list of plugins with this one in it: the keys that have an example tag, and what a plugin of
// its kind is not without. It is "" where validate would find something wrong with it.
func (c *core) example() string {
	const addresses = `"ipam":{"type":"host-local","ranges":[[{"subnet":"10.1.1.0/24"}]]}`
	given := slices.DeleteFunc(c.keys(), func(k key) bool { return k.example == "" })
	hasIPAM := slices.ContainsFunc(given, func(k key) bool { return k.parts[0] == "ipam" })
	name := `"type":` + string(quoted(c.name))
	plugins := "{" + join(name, object(given, 0))
	switch {
	case c.kind == IPAM && !hasIPAM:
		plugins = "{" + join(`"type":"bridge"`, object(given, 0), `"ipam":{`+name+"}")
	case c.kind == IPAM: // a key of the section ipam is in it
		plugins = `{"type":"bridge",` + object(append([]key{{parts: []string{"ipam", "type"}, example: string(quoted(c.name))}}, given...), 0)
	case c.kind == Interface && !hasIPAM:
		plugins = join(plugins, addresses)
	case c.kind == Chained:
		plugins = `{"type":"bridge",` + addresses + `},` + plugins
	}
	var out bytes.Buffer
	err := json.Indent(&out, fmt.Appendf(nil, `{"cniVersion":%s,"name":%s,"plugins":[%s}]}`, quoted(c.newest()), quoted(c.name+"-net"), plugins), "", "  ")
	if err != nil {
		return "" // cannot be: exampleOf quotes what is no JSON
	}
	out.WriteByte('\n')
	v := &validation{core: c, data: out.Bytes(), stderr: io.Discard}
	if v.file(true); len(v.found) > 0 {
		return ""
	}
	return out.String()
}

// newest is the newest version that the plugin speaks.
func (c *core) newest() string {
	speaks := c.speaks()
	if len(speaks) == 0 {
		return ""
	}
	return speaks[len(speaks)-1]
}

// join writes the members of an object, those that are there.
func join(members ...string) string {
	return strings.Join(slices.DeleteFunc(members, func(s string) bool { return s == "" }), ",")
}

// object writes the members of the object that the keys, which have their first depth parts in common, are in.
func object(keys []key, depth int) string {
	var out []string
	for len(keys) > 0 {
		part, value := keys[0].parts[depth], keys[0].example
		var inside, others []key
		for _, k := range keys {
			if k.parts[depth] == part {
				inside = append(inside, k)
			} else {
				others = append(others, k)
			}
		}
		if len(keys[0].parts) > depth+1 {
			value = "{" + object(inside, depth+1) + "}"
		}
		name, lists := strings.TrimRight(part, "[]"), strings.Count(part, "[]")
		out = append(out, string(quoted(name))+":"+strings.Repeat("[", lists)+value+strings.Repeat("]", lists))
		keys = others
	}
	return strings.Join(out, ",")
}
