package skel

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/cnikit/cnikit/netconf"
)

// How many plugins of one list are looked at. Each costs some walks through the file, 0.1 s for 16 MB; a list that
// somebody uses has three or four, and a kilobyte.
const (
	maxPlugins = 50
	maxWalked  = 4 * netconf.MaxConfig // bytes: a list of that size divided by n has n of its plugins looked at
)

// validation is the check of one file.
type validation struct {
	*core
	data   []byte
	lines  netconf.Lines // of data
	found  []finding
	stderr io.Writer // the stack of a panic
	list   bool
	mine   int      // plugins of our type
	beside []string // parts of their configurations that are not looked at
	all    int
}

// note records something at a byte offset of the file.
func (v *validation) note(off int, warning bool, format string, args ...any) {
	line, column := v.lines.Place(off)
	v.add(finding{line, column, warning, fmt.Sprintf(format, args...)})
}

// add records something, in the order of the places, and once: two readers of a configuration may find the same.
func (v *validation) add(f finding) {
	if slices.Contains(v.found, f) {
		return
	}
	at := len(v.found)
	for at > 0 && (f.line < v.found[at-1].line || f.line == v.found[at-1].line && f.column < v.found[at-1].column) {
		at--
	}
	v.found = slices.Insert(v.found, at, f)
}

// file checks the whole file: a list of plugins if it has the key plugins, unless it has a type; a
// .conflist is meant as one.
func (v *validation) file(conflist bool) {
	v.lines.Text = v.data
	if len(v.data) > netconf.MaxConfig {
		v.note(0, false, "larger than %d bytes, which no plugin reads", netconf.MaxConfig)
		return
	}
	_, err := netconf.ParseNetwork(v.data)
	var whole *netconf.Error
	if errs := netconf.Split(err); len(errs) > 0 && errors.As(errs[0], &whole) && whole.Path == "" { // no JSON object, or too much of one
		v.errors(err, text{data: v.data})
		return
	}
	top := membersOf(v.data, 0)
	if v.list = conflist || top.get("plugins") != nil && top.get("type") == nil; v.list {
		v.plugins(top)
		return
	}
	v.all = 1
	t := text{data: v.data, start: bytes.IndexByte(v.data, '{')}
	t.version = t.start
	if m := top.get("cniVersion"); m != nil {
		t.version = m.Start
	}
	v.plugin(t)
	if v.mine == 0 && top.get("type") != nil {
		v.note(top.get("type").Start, false, "type: this is %s: expected %q", top.get("type").Value(v.data), v.name)
	}
}

// seen says what was looked at.
func (v *validation) seen() string {
	seen := "a configuration of " + v.name
	if v.list {
		seen = fmt.Sprintf("%d of %d plugins are of %s", v.mine, v.all, v.name)
	}
	if len(v.beside) > 0 {
		seen += "; not looked at: " + strings.Join(v.beside, "; ")
	}
	return printable(seen)
}

// text is the configuration of one plugin as a runtime would send it. For one of a list it has as many lines
// and columns before it as the list, so that every error about it names the place in the file.
type text struct {
	data    []byte
	path    string // of the plugin in the file: "plugins[0]"
	start   int    // where it begins in the file
	version int    // where the file has its cniVersion, or begins
}

// plugin checks the configuration of one plugin: all that an ADD checks before any work, if it is ours.
func (v *validation) plugin(t text) {
	env := map[string]string{"CNI_COMMAND": string(netconf.Add), "CNI_CONTAINERID": "validate", "CNI_NETNS": "/run/netns/validate", "CNI_IFNAME": "eth0"}
	req, err := netconf.Parse(func(key string) string { return env[key] }, bytes.NewReader(t.data))
	v.errors(err, t)
	switch {
	case req.Network.Type == "" && !strings.Contains(fmt.Sprint(err), "type"):
		v.note(t.start, false, "%stype: missing", t.prefix())
	case strings.ContainsAny(req.Network.Type, "/\\"):
		v.errors(req.Invalid("type", "%q is no name of a program", req.Network.Type), t)
	}
	if req.Network.Type != v.name && (v.kind != IPAM || req.Network.IPAM.Type != v.name) {
		return
	}
	v.mine++
	req.Strict = v.strict
	req.Warn = func(msg string, args ...any) { v.warned(t, msg, args) }
	var steps Steps
	err = protect(req, "Plugin.Validate or Steps", func() error {
		describe, err := v.decode(req)
		if err == nil {
			steps = describe()
			for _, part := range steps.unchecked() {
				v.beside = append(v.beside, t.prefix()+part)
			}
		}
		return err
	})
	v.errors(err, t)
	v.errors(req.Rejected(), t)
	v.errors(v.checkVersion(req, steps), t)
}

func (t text) prefix() string {
	if t.path == "" {
		return ""
	}
	return t.path + "."
}

// errors notes an error about a plugin's text, or each of several that are joined.
func (v *validation) errors(err error, t text) {
	line, column := v.lines.Place(t.start)
	for _, err := range netconf.Split(err) {
		f := finding{line: line, column: column, text: err.Error()}
		var e *netconf.Error
		if errors.As(err, &e) {
			switch {
			case e.Path == "name" && t.path != "":
				continue // the list's, which is checked there
			case e.Path == "cniVersion":
				f.line, f.column = v.lines.Place(t.version)
			case e.Line > 0:
				f.line, f.column = e.Line, e.Column
			case e.Path != "":
				f.line, f.column = v.placeAround(t, e)
			}
			if err == error(e) { // else somebody said more around it
				f.text = e.Err.Error()
				if e.Path != "" {
					f.text = t.prefix() + e.Path + ": " + f.text
				}
			}
			if e.Details != "" {
				f.text += " (" + e.Details + ")"
			}
		}
		v.add(f)
		line, column = f.line, f.column // "and 3 more errors" comes behind the last
	}
}

// placeAround is where the innermost object or array around something that is missing begins: of "ipam.ranges" the section
// ipam, else the plugin.
func (v *validation) placeAround(t text, missing *netconf.Error) (line, column int) {
	path := missing.Path
	for i := strings.LastIndexAny(path, ".["); missing.Op == "configuration" && i > 0; i = strings.LastIndexAny(path, ".[") {
		path = path[:i]
		var around *netconf.Error
		if errors.As((&netconf.Request{Config: t.data}).Invalid(path, "missing"), &around) && around.Line > 0 {
			return around.Line, around.Column
		}
	}
	return v.lines.Place(t.start)
}

// warned notes what Decode or the plugin warns of. Decode puts the place before its text, an error behind its path.
func (v *validation) warned(t text, msg string, args []any) {
	for i := 0; i+1 < len(args); i += 2 {
		if args[i] == "stack" { // of a panic, which is an error besides
			fmt.Fprintf(v.stderr, "%v\n", args[i+1])
			return
		}
		msg += fmt.Sprintf(" %v=%q", args[i], fmt.Sprint(args[i+1]))
	}
	f := finding{warning: true, text: msg}
	f.line, f.column = v.lines.Place(t.start)
	if after, found := strings.CutPrefix(msg, "configuration: line "); found {
		at, rest, _ := strings.Cut(after, ": ")
		if line, column, ok := placeIn(at); ok {
			f = finding{line, column, true, rest}
		}
	} else if after, found := strings.CutPrefix(msg, "configuration: "); found {
		path, rest, _ := strings.Cut(after, " (line ")
		at, rest, _ := strings.Cut(rest, "): ")
		if line, column, ok := placeIn(at); ok {
			f = finding{line, column, true, t.prefix() + path + ": " + rest}
		}
	}
	v.add(f)
}

// placeIn reads "3, column 7".
func placeIn(s string) (line, column int, ok bool) {
	l, c, _ := strings.Cut(s, ", column ")
	line, err1 := strconv.Atoi(l)
	column, err2 := strconv.Atoi(c)
	return line, column, err1 == nil && err2 == nil
}
