package compare

import (
	"encoding/json"
	"slices"
	"strings"
)

// difference is one way in which a Network is not libcni.
type difference struct {
	name   string
	reason string
	form   bool // of how a thing is written, not of what is done: it may be anywhere
	// takeOut makes the records alike, as far as this difference goes.
	takeOut func(theirs, ours *record)
}

// differences are all that there are.
var differences = []difference{
	{"empty variables", "libcni sets CNI_NETNS, CNI_ARGS and the like to nothing where there is none; the specification has them optional, and on GC and STATUS not at all", true,
		func(theirs, _ *record) {
			for _, c := range theirs.calls {
				for key, value := range c.env {
					if strings.HasPrefix(key, "CNI_") && value == "" {
						delete(c.env, key)
					}
				}
			}
		}},
	{"CNI_PATH of VERSION", "libcni sends the word dummy; here it is where the plugins are, as for every verb", true,
		func(theirs, ours *record) {
			for _, r := range []*record{theirs, ours} {
				for _, c := range r.calls {
					if c.env["CNI_COMMAND"] == "VERSION" {
						delete(c.env, "CNI_PATH")
					}
				}
			}
		}},
	{"numbers", "libcni reads all numbers as float64 and writes another integer above 2^53; here no byte of a plugin's own keys changes", true,
		func(theirs, ours *record) {
			for _, r := range []*record{theirs, ours} {
				for _, c := range r.calls {
					for key, value := range c.stdin {
						c.stdin[key] = floats(value)
					}
				}
			}
		}},
	{"form of prevResult", "libcni writes a result anew: it adds an empty dns and drops what its types do not know; here an answer in the network's version is passed on as it is", true,
		func(theirs, ours *record) {
			for _, r := range []*record{theirs, ours} {
				for _, c := range r.calls {
					if prev, ok := c.stdin["prevResult"]; ok {
						c.stdin["prevResult"] = meaning(prev)
					}
				}
			}
		}},
	{"version of prevResult", "libcni hands an answer on in whatever version the plugin gave it; a plugin reads its prevResult in the version of its configuration, and finds no addresses in another one's form", true,
		func(theirs, ours *record) {
			for _, r := range []*record{theirs, ours} {
				for _, c := range r.calls {
					switch prev := c.stdin["prevResult"].(type) {
					case map[string]any:
						delete(prev, "cniVersion")
					case []any: // as above
						prev[0] = ""
					}
				}
			}
		}},
	{"no version", "libcni writes an empty cniVersion, which every plugin reads as 0.1.0; the specification wants the key to have a value", false,
		func(theirs, _ *record) {
			for _, c := range theirs.calls {
				if c.stdin["cniVersion"] == "" {
					c.stdin["cniVersion"] = "0.1.0"
				}
			}
		}},
	{"CHECK before 0.4.0", "libcni calls that an error. Here a verb that a version does not have is not sent and is no error, as for every delegate: who checks several networks would never get through", false,
		func(theirs, _ *record) { theirs.outcome("CHECK", " ok") }},
	{"a failed ADD is undone", "libcni leaves what the plugins before made, and the one that failed, to a DEL of the runtime, which a meta plugin is not; the specification wants a delegate's DEL (section 4)", false,
		func(_, ours *record) {
			ours.calls = slices.DeleteFunc(ours.calls, func(c call) bool { return c.during == "ADD" && c.env["CNI_COMMAND"] == "DEL" })
		}},
	{"DEL tries all", "libcni stops at the first plugin that fails: what the others hold is lost when the runtime gives up. And it gives each all of the time that is left, so that one which hangs takes it; here one that hangs is stopped while there is some for the others", false,
		func(theirs, ours *record) {
			n := 0
			for _, c := range theirs.calls {
				if c.during == "DEL" {
					n++
				}
			}
			ours.calls = slices.DeleteFunc(ours.calls, func(c call) bool {
				if c.during == "DEL" {
					n--
				}
				return c.during == "DEL" && n < 0
			})
		}},
	{"GC without a list", "libcni leaves the list out, and deletes every attachment that it remembers; a plugin that takes that for an empty list destroys what lives", false,
		func(theirs, ours *record) {
			theirs.outcome("GC", " error")
			theirs.calls = nil
		}},
	{"a prevResult in the file", "the specification: it must not be set for the first ADD (section 3); libcni leaves in what an administrator wrote", false,
		func(theirs, _ *record) {
			for _, c := range theirs.calls {
				if c.during == "ADD" || c.during == "GC" || c.during == "STATUS" {
					delete(c.stdin, "prevResult")
				}
			}
		}},
	{"an unknown version is refused", "libcni runs the plugins and cannot read their answer then; here nothing is run", false,
		func(theirs, ours *record) {
			theirs.calls = nil
			for _, verb := range []string{"ADD", "CHECK", "GC", "STATUS"} {
				theirs.outcome(verb, " error")
			}
			theirs.result, ours.result = "", ""
		}},
	{"DEL in a known version", "a plugin refuses a version that it does not know, at each try: what was made before the file was changed could never be taken away", false,
		func(theirs, ours *record) {
			for _, c := range ours.calls {
				c.stdin["cniVersion"] = "1.2.0"
			}
			if len(theirs.calls) == 0 { // libcni cannot compare it, and runs nothing
				ours.calls = nil
				theirs.outcome("DEL", " ok")
			}
		}},
}

// outcome replaces what came of a verb.
func (r *record) outcome(verb, what string) {
	for i, o := range r.outcomes {
		if strings.HasPrefix(o, verb+" ") {
			r.outcomes[i] = verb + what
		}
	}
}

// floats is a value with its numbers as libcni has them.
func floats(value any) any {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // it was decoded from JSON
	}
	var out any
	if err := json.Unmarshal(text, &out); err != nil {
		panic(err) // as above
	}
	return out
}
