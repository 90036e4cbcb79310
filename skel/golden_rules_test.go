package skel_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/cnikit/cnikit/skel"
)

// goldenRule is a reason to refuse a call, from the specification ("SPEC") or, where that is silent, from
// what this package promises in its documentation ("skel").
type goldenRule struct {
	source string
	code   uint
	names  string // what the message must name where it is the only one that is broken
	broken func(c goldenCase) bool
}

// since is the first version with the verb; versions are in order (SPEC, section "Released versions").
var (
	goldenSince = map[string]string{"ADD": "0.1.0", "DEL": "0.1.0", "VERSION": "0.1.0", "CHECK": "0.4.0", "GC": "1.1.0", "STATUS": "1.1.0"}
	goldenKnown = []string{"0.1.0", "0.2.0", "0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"}
)

func (c goldenCase) is(verbs ...string) bool { return slices.Contains(verbs, c.verb) }

func (c goldenCase) lacks(words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.Contains(c.wrong, w) })
}

// readable tells whether stdin is a configuration at all.
func (c goldenCase) readable() bool { return !strings.HasPrefix(c.wrong, "stdin") }

// asked is the version of the configuration, "0.1.0" where it has none; ok is false for one that does not exist.
func (c goldenCase) asked() (version string, ok bool) {
	if c.version == "none" {
		return "0.1.0", true
	}
	return c.version, slices.Contains(goldenKnown, c.version)
}

// before tells whether the version is known and older.
func (c goldenCase) before(version string) bool {
	v, ok := c.asked()
	return ok && slices.Index(goldenKnown, v) < slices.Index(goldenKnown, version)
}

var goldenRules = []goldenRule{
	{"SPEC 2, Parameters: CNI_COMMAND is one of six words", 4, "CNI_COMMAND", func(c goldenCase) bool { return goldenSince[c.verb] == "" }},
	{"SPEC 2, ADD, CHECK, DEL: CNI_CONTAINERID is required, of [a-zA-Z0-9_.-]", 4, "CNI_CONTAINERID", func(c goldenCase) bool {
		return c.is("ADD", "CHECK", "DEL") && c.lacks("CNI_CONTAINERID")
	}},
	{"SPEC 2, ADD, CHECK, DEL: CNI_IFNAME is required, without '/'", 4, "CNI_IFNAME", func(c goldenCase) bool {
		return c.is("ADD", "CHECK", "DEL") && c.lacks("CNI_IFNAME")
	}},
	{"SPEC 2, ADD, CHECK: CNI_NETNS is required; DEL: optional", 4, "CNI_NETNS", func(c goldenCase) bool {
		return c.is("ADD", "CHECK") && c.wrong == "CNI_NETNS missing"
	}},
	{"SPEC 5, Error 3: the container is gone; skel: only where nothing can remain", 3, "CNI_NETNS", func(c goldenCase) bool {
		return c.is("ADD", "CHECK") && c.wrong == "CNI_NETNS gone" && c.kind != skel.IPAM && !c.prev
	}},
	{"skel: a namespace that is gone when others may have made something", 7, "CNI_NETNS", func(c goldenCase) bool {
		return c.is("ADD", "CHECK") && c.wrong == "CNI_NETNS gone" && c.kind != skel.IPAM && c.prev
	}},
	{"SPEC 2: CNI_NETNS is the container's; only IPAM does not look at it", 4, "CNI_NETNS", func(c goldenCase) bool {
		return c.is("ADD", "CHECK") && c.lacks("CNI_NETNS no namespace", "CNI_NETNS our own") && c.kind != skel.IPAM
	}},
	{"SPEC 2, CNI_ARGS: key=value;key=value", 4, "CNI_ARGS", func(c goldenCase) bool { return c.is("ADD", "CHECK") && c.wrong == "CNI_ARGS X" }},
	{"SPEC 2, GC: CNI_PATH is required", 4, "CNI_PATH", func(c goldenCase) bool { return c.is("GC") && c.lacks("CNI_PATH") }},

	{"SPEC 5, Error 6: stdin is a JSON object; before 1.0.0 VERSION had none", 6, "", func(c goldenCase) bool {
		return c.is("ADD", "CHECK", "GC", "STATUS", "VERSION") && !c.readable() && (c.verb != "VERSION" || c.wrong != "stdin empty")
	}},
	{"SPEC 5, Error 6: a value of another type; GC goes on", 6, "mtu", func(c goldenCase) bool { return c.is("ADD", "CHECK", "STATUS") && c.wrong == "mtu a string" }},
	{"SPEC 1: name is required, of [a-zA-Z0-9_.-]", 7, "name", func(c goldenCase) bool { return c.is("ADD", "CHECK", "GC", "STATUS") && c.lacks("name ") }},
	{"SPEC 5, Error 1: a version that is not supported", 1, "cniVersion", func(c goldenCase) bool {
		_, known := c.asked()
		return c.is("ADD", "CHECK", "GC", "STATUS") && c.readable() && !known
	}},
	{"SPEC 5, Error 1: the version does not have the verb", 1, "cniVersion", func(c goldenCase) bool {
		return c.readable() && c.is("CHECK", "GC", "STATUS") && c.before(goldenSince[c.verb])
	}},
	{"SPEC 2, CHECK: prevResult is required", 7, "prevResult", func(c goldenCase) bool { return c.is("CHECK") && c.readable() && !c.prev }},
	{"skel: a chained plugin has something to change", 7, "prevResult", func(c goldenCase) bool {
		return c.is("ADD") && c.readable() && !c.prev && c.kind == skel.Chained
	}},
	{"SPEC 0.2.0, Result: one address of each family, and these plugins add theirs to that of the prevResult", 7, "prevResult", func(c goldenCase) bool {
		return c.is("ADD") && c.readable() && c.before("0.3.0") && c.prev && (c.kind == skel.Interface || c.kind == skel.Meta)
	}},
	{"SPEC 2, GC: cni.dev/valid-attachments is required", 7, "cni.dev/valid-attachments", func(c goldenCase) bool {
		return c.is("GC") && c.wrong == "valid-attachments missing" && !c.before("1.1.0")
	}},
}

// judge holds an outcome against the rules.
func (c goldenCase) judge(o goldenOutcome) error {
	document, err := goldenDocument(o.stdout)
	if err != nil {
		return err
	}
	var broken []goldenRule
	for _, r := range goldenRules {
		if r.broken(c) {
			broken = append(broken, r)
		}
	}
	switch {
	case len(broken) > 0:
		if o.worked {
			return fmt.Errorf("%s: a step worked before the call was refused", broken[0].source)
		}
		return c.judgeError(o, document, broken)
	case o.exit != 0:
		return errors.New("no rule is broken, but it failed")
	case o.worked != (c.verb != "VERSION"):
		return errors.New("it succeeded, and no step was asked")
	}
	return c.judgeSuccess(document)
}

// goldenDocument reads stdout: one JSON object or nothing (SPEC, section 2), in the form that we print.
func goldenDocument(stdout string) (map[string]any, error) {
	if stdout == "" {
		return nil, nil
	}
	decoder := json.NewDecoder(strings.NewReader(stdout))
	var raw json.RawMessage
	var document map[string]any
	if err := decoder.Decode(&raw); err != nil {
		return nil, fmt.Errorf("stdout: %w", err)
	}
	if decoder.Decode(new(json.RawMessage)) != io.EOF {
		return nil, errors.New("stdout: more than one document")
	}
	if err := json.Unmarshal(raw, &document); err != nil {
		return nil, fmt.Errorf("stdout: %w", err)
	}
	var compact, indented bytes.Buffer
	if err := errors.Join(json.Compact(&compact, raw), json.Indent(&indented, raw, "", "    ")); err != nil {
		return nil, err
	}
	if stdout != compact.String()+"\n" && stdout != indented.String()+"\n" {
		return nil, errors.New("stdout: the document is neither on one line nor indented by four")
	}
	return document, nil
}

// judgeError wants an error document (SPEC, section 5) with the code of a rule that is broken.
func (c goldenCase) judgeError(o goldenOutcome, document map[string]any, broken []goldenRule) error {
	if o.exit == 0 {
		return fmt.Errorf("succeeded in spite of: %s", broken[0].source)
	}
	code, _ := document["code"].(float64)
	msg, _ := document["msg"].(string)
	if !slices.ContainsFunc(broken, func(r goldenRule) bool { return r.code == uint(code) }) {
		return fmt.Errorf("code %v: expected that of: %s", document["code"], broken[0].source)
	}
	for _, r := range broken {
		if len(broken) == 1 && !strings.Contains(msg, r.names) {
			return fmt.Errorf("the message does not name %q: %s", r.names, r.source)
		}
	}
	for key := range document {
		if !slices.Contains([]string{"cniVersion", "code", "msg", "details"}, key) {
			return fmt.Errorf("key %q in an error", key)
		}
	}
	return c.judgeVersion(document)
}

// judgeVersion: "cniVersion: the same value as provided by the configuration" (SPEC, section 5).
func (c goldenCase) judgeVersion(document map[string]any) error {
	want, _ := c.asked()
	if !c.readable() {
		want = "1.1.0" // nobody knows which one was meant
	}
	if document["cniVersion"] != want {
		return fmt.Errorf("cniVersion %v: expected %q", document["cniVersion"], want)
	}
	return nil
}

// judgeSuccess wants a result from ADD, the versions from VERSION, and nothing from the others.
func (c goldenCase) judgeSuccess(document map[string]any) error {
	switch {
	case !c.is("ADD", "VERSION"):
		if document != nil {
			return errors.New("output on success")
		}
		return nil
	case c.is("VERSION"):
		if fmt.Sprint(document["supportedVersions"]) != fmt.Sprint(goldenKnown) || len(document) != 2 {
			return fmt.Errorf("supportedVersions: expected %v", goldenKnown)
		}
		return c.judgeVersion(document)
	}
	_, v4 := document["ip4"]
	ips, many := document["ips"].([]any)
	if v4 != c.before("0.3.0") || many == v4 {
		return errors.New("the result is not in the form of its version: ip4 before 0.3.0, then ips")
	}
	for _, ip := range ips {
		if _, family := ip.(map[string]any)["version"]; family != c.before("1.0.0") {
			return errors.New("the result is not in the form of its version: ips[].version from 0.3.0 to 0.4.0")
		}
	}
	if _, has := document["interfaces"]; has != (!c.before("0.3.0") && (c.kind == skel.Interface || c.kind == skel.Meta)) {
		return errors.New("interfaces: expected from 0.3.0 on, and not of an IPAM plugin")
	}
	return c.judgeVersion(document)
}
