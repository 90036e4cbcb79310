package explain

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// Line is one attachment of a pod.
type Line struct {
	Interface string
	Network   string
	Plugins   []json.RawMessage // their configurations, in order
	Asks      []string          // what the pod asks of it, in words
	Device    string            // empty: none
	Route     string            // what it asks about the default route, in words; empty: nothing
}

// plugin is what is shown of a plugin's configuration.
type plugin struct {
	Type   string
	Master string // what it stands on, on the host
	Bridge string
	IPAM   struct{ Type string }
}

func (l Line) plugins() []plugin {
	list := make([]plugin, len(l.Plugins))
	for i, config := range l.Plugins {
		_ = json.Unmarshal(config, &list[i]) // what has another shape is not shown
	}
	return list
}

// parent is the host's link that a plugin stands on; empty: none is named.
func (p plugin) parent() string {
	if p.Master != "" {
		return p.Master
	}
	return p.Bridge
}

// String is the plugin in words: "macvlan on eth1 (host-local)".
func (p plugin) String() string {
	text := p.Type
	if on := p.parent(); on != "" {
		text += " on " + on
	}
	if p.IPAM.Type != "" {
		text += " (" + p.IPAM.Type + ")"
	}
	return text
}

// Table writes the attachments as a table for people. The error is the writer's.
func Table(w io.Writer, lines []Line) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	rows := [][]string{{"INTERFACE", "NETWORK", "PLUGINS", "ASKS FOR", "DEVICE", "DEFAULT ROUTE"}}
	for _, l := range lines {
		var plugins []string
		for _, p := range l.plugins() {
			plugins = append(plugins, p.String())
		}
		rows = append(rows, []string{l.Interface, l.Network, strings.Join(plugins, ", "), strings.Join(l.Asks, " "), l.Device, l.Route})
	}
	for _, row := range rows {
		for i, cell := range row {
			if row[i] = printable(cell); row[i] == "" {
				row[i] = "-"
			}
		}
		if _, err := fmt.Fprintln(table, strings.TrimRight(strings.Join(row, "\t"), " ")); err != nil {
			return err
		}
	}
	return table.Flush()
}

// printable keeps a cell in its place.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
}

// Graph writes the attachments as a Mermaid graph: from the pod by its interfaces to its networks, and to what the plugins stand
// on, which two networks may share. The error is the writer's.
func Graph(w io.Writer, pod string, lines []Line) error {
	var b strings.Builder
	b.WriteString("graph LR\n")
	fmt.Fprintf(&b, "    pod([%s])\n", label(pod))
	var parents []string
	for i, l := range lines {
		var types []string
		for _, p := range l.plugins() {
			types = append(types, p.Type)
		}
		edge := append([]string{l.Interface}, l.Asks...)
		if l.Route != "" {
			edge = append(edge, "default route: "+l.Route)
		}
		fmt.Fprintf(&b, "    pod -- %s --> n%d[%s]\n", label(edge...), i, label(l.Network, strings.Join(types, " + ")))
		if l.Device != "" {
			fmt.Fprintf(&b, "    n%d --> d%d{{%s}}\n", i, i, label(l.Device))
		}
		for _, p := range l.plugins() {
			on := p.parent()
			if on == "" {
				continue
			}
			at := slices.Index(parents, on)
			if at < 0 {
				at = len(parents)
				parents = append(parents, on)
				fmt.Fprintf(&b, "    h%d[(%s)]\n", at, label(on, "on the host"))
			}
			fmt.Fprintf(&b, "    n%d --> h%d\n", i, at)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// label is a text of some lines in quotes, with what would end it, or be read as markup, written as Mermaid's entities.
func label(lines ...string) string {
	escape := strings.NewReplacer("#", "#35;", `"`, "#quot;", "<", "#lt;", ">", "#gt;", "&", "#amp;", "`", "#96;")
	for i, line := range lines {
		lines[i] = escape.Replace(printable(line))
	}
	return `"` + strings.Join(lines, "<br/>") + `"`
}
