package skel

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/cnikit/cnikit/netconf"
)

// helpWidth is where lines of the help end: it is for a terminal of that many columns, and a narrower one folds them.
const helpWidth = 100

// does says what a plugin of a kind does for a container.
func (k Kind) does() string {
	switch k {
	case Chained:
		return "It changes what the plugins before it in a list have made."
	case IPAM:
		return "It gives addresses to the plugin that calls it."
	case Meta:
		return "It calls other plugins, which make the interfaces."
	}
	return "It makes the interface of a container."
}

// help tells a person who starts a plugin by hand what it is: how it is called, its keys of the configuration,
// with the text of their doc tags, and an example.
func (c *core) help(h *hand) string {
	var b strings.Builder
	head := func(text string) { fmt.Fprintf(&b, "\n%s\n", h.paint(bold, text)) }
	about := ""
	if c.about != "" {
		about = ": " + c.about
	}
	fmt.Fprintf(&b, "%s%s\n\n", h.paint(bold, c.name), about)
	fold(&b, "", "A CNI plugin: a container runtime starts it, with CNI_COMMAND and more in the environment and a "+
		"network configuration on stdin. "+c.kind.does()+" It speaks CNI "+strings.Join(c.speaks(), ", ")+".")
	head("By hand")
	table(&b, [][2]string{
		{c.name + " help", "this text"},
		{c.name + " validate [-strict] FILE...", "checks configurations (.conf) and lists (.conflist) without touching anything; - is stdin. " +
			"Exit status 0: nothing is wrong; 1: something is, with -strict also for a warning; 2: a file cannot be read"},
		{c.name + " version", "its version, and those of the specification"},
	})
	head("Its keys of the configuration")
	rows, refused := [][2]string{}, []string{}
	for _, k := range c.keys() {
		if k.typ == reflect.TypeFor[netconf.Unserved]() {
			refused = append(refused, k.path())
			continue
		}
		rows = append(rows, [2]string{k.path(), k.explain()})
	}
	table(&b, rows)
	if len(rows) == 0 {
		fold(&b, "  ", "It has none of its own.")
	}
	if len(refused) > 0 {
		b.WriteByte('\n')
		fold(&b, "  ", "Known, and refused where it asks for something: "+strings.Join(refused, ", ")+".")
	}
	b.WriteByte('\n')
	fold(&b, "  ", "And those of every plugin: name, type, cniVersion, capabilities, ipam, dns; args, runtimeConfig and "+
		"prevResult, which a runtime adds; and log, what the plugin logs and where: "+
		`{"level": "off, error, warn, info or debug", "file": "/var/log/`+c.name+`.log"}.`)
	if example := c.example(); example != "" {
		head("Example: /etc/cni/net.d/10-" + c.name + ".conflist")
		b.WriteString(example)
	}
	return b.String()
}

// table writes rows of a name and a text. Where a name is too long for its column, the text begins on a line of its own.
func table(b *strings.Builder, rows [][2]string) {
	const most = 28
	width := 0
	for _, row := range rows {
		width = max(width, min(len(row[0]), most))
	}
	for _, row := range rows {
		indent := strings.Repeat(" ", width+4)
		var text strings.Builder
		fold(&text, indent, row[1])
		if len(row[0]) > most {
			fmt.Fprintf(b, "  %s\n%s", row[0], text.String())
			continue
		}
		rest := strings.TrimPrefix(text.String(), indent)
		if rest == "" {
			rest = "\n"
		}
		b.WriteString(strings.TrimRight(fmt.Sprintf("  %-*s  ", width, row[0]), " "))
		if rest != "\n" {
			b.WriteString(strings.Repeat(" ", width+2-len(row[0])))
		}
		b.WriteString(rest)
	}
}

// fold writes a text in lines that begin with indent and end before helpWidth, if the words let them.
func fold(b *strings.Builder, indent, text string) {
	line := indent
	for _, word := range strings.Fields(text) {
		if len(line) > len(indent) && len(line)+1+len([]rune(word)) > helpWidth {
			b.WriteString(line + "\n")
			line = indent
		}
		if len(line) > len(indent) {
			line += " "
		}
		line += word
	}
	if len(line) > len(indent) {
		b.WriteString(line + "\n")
	}
}
