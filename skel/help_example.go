package skel

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cnikit/cnikit/netconf"
)

// CheckExample says what is wrong with the example that PLUGIN help shows, which is made of the example tags of the
// configuration's keys: what PLUGIN validate finds in it, with its text. The help of a plugin leaves out a wrong example
// without a word, since a person who reads it cannot mend it; a test of the plugin can:
//
//	if err := plugin().CheckExample(); err != nil {
//		t.Error(err)
//	}
func (p Plugin[C]) CheckExample() error {
	c := p.core()
	if c.broken != nil {
		return c.broken
	}
	text, found := c.checkedExample()
	var errs []error
	for _, f := range found {
		errs = append(errs, netconf.Errorf(netconf.CodeInvalidNetworkConfig, "example:%d:%d: %s", f.line, f.column, f.text))
	}
	if len(errs) > 0 {
		errs = append(errs, fmt.Errorf("the example is\n%s", text))
	}
	return netconf.Join(errs...)
}

// example is the example of the help; "" where validate would find something wrong with it.
func (c *core) example() string {
	text, found := c.checkedExample()
	if len(found) > 0 {
		return ""
	}
	return text
}

// checkedExample is a list of plugins with this one in it, and what validate finds in it: the keys that have an example tag,
// and what a plugin of its kind is not without.
func (c *core) checkedExample() (string, []finding) {
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
		return "", []finding{{text: err.Error()}} // cannot be: exampleOf quotes what is no JSON
	}
	out.WriteByte('\n')
	v := &validation{core: c, data: out.Bytes(), stderr: io.Discard}
	v.file(true)
	return out.String(), v.found
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
