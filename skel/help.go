package skel

import (
	"fmt"
	"io"
	"reflect"
	"strings"
	"text/tabwriter"
)

// help tells a person who starts a plugin by hand what it is: its configuration keys, with the text of
// their doc tags, and how it is called.
func (c *core) help(w io.Writer) {
	fmt.Fprintf(w, "%s: %s\nA CNI plugin: a container runtime runs it with CNI_COMMAND and more in the environment, and a configuration on stdin.\n", c.name, c.about)
	fmt.Fprintf(w, "Versions: %s\nIts own keys of the configuration:\n", strings.Join(c.versions, ", "))
	table := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, k := range keysOf(c.config) {
		fmt.Fprintf(table, "  %s\t%s\n", k[0], k[1])
	}
	_ = table.Flush() // to the log: see warner
}

// keysOf lists the keys of a configuration with their explanations, those of embedded structs too.
func keysOf(t reflect.Type) [][2]string {
	var keys [][2]string
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "" && f.Type.Kind() == reflect.Struct:
			keys = append(keys, keysOf(f.Type)...)
		case !f.IsExported() || name == "-":
		case name == "":
			keys = append(keys, [2]string{f.Name, f.Tag.Get("doc")})
		default:
			keys = append(keys, [2]string{name, f.Tag.Get("doc")})
		}
	}
	return keys
}
