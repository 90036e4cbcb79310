package skeltest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/cnikit/cnikit/skel"
)

// configRequirements are about a configuration that is wrong, and one that only looks so.
func configRequirements() []Requirement { return slices.Concat(configUnreadable(), configKeys()) }

// configUnreadable are about a configuration that cannot be understood.
func configUnreadable() []Requirement {
	return []Requirement{{
		ID: "config/not-json", Level: Must, Section: "CNI 1.1.0, 1, 5 (code 6)",
		Text:    "ADD with a configuration that is not one JSON object fails, and makes nothing.",
		Explain: "An empty stdin, a list, a second document behind the first: a parser that stops early, or is content with null, goes on with an empty configuration, and so with defaults that nobody chose.",
		Check: func(b *Bench) {
			refusesEach(b, []wrong{
				conf("nothing", func(string) string { return "" }),
				conf("blanks", func(string) string { return " \n" }),
				conf("null", func(string) string { return "null" }),
				conf("a list", func(c string) string { return "[" + c + "]" }),
				conf("a text", func(string) string { return `"conf"` }),
				conf("cut short", func(c string) string { return strings.TrimSpace(c)[:len(strings.TrimSpace(c))-1] }),
				conf("two documents", func(c string) string { return c + "\n" + c }),
				conf("something behind it", func(c string) string { return c + " }" }),
				conf("a comment", func(c string) string { return "# net\n" + c }),
			})
		},
	}, {
		ID: "config/wrong-type", Level: Must, Section: "CNI 1.1.0, 1 (Plugin configuration objects)",
		Text:    "ADD with a key of the specification that has a value of the wrong type fails, and makes nothing.",
		Explain: "A value that does not decode must not be taken for one that was not given: the attachment would differ from what the administrator wrote, and nobody is told.",
		Check: func(b *Bench) {
			var rows []wrong
			for _, kv := range [][2]string{{"cniVersion", "1"}, {"name", "7"}, {"prevResult", `"none"`}, {"prevResult", "[]"}} {
				rows = append(rows, conf(kv[0]+": "+kv[1], func(c string) string { return b.Set(c, kv[0], kv[1]) }))
			}
			if b.Get(b.Base, "ipam") != "" {
				rows = append(rows, conf("ipam: 5", func(c string) string { return b.Set(c, "ipam", "5") }))
			}
			refusesEach(b, rows)
		},
	}, {
		ID: "config/version", Level: Must, Section: "CNI 1.1.0, 1, 5 (code 1)",
		Text:    "ADD in a version that the plugin does not announce fails, and makes nothing.",
		Explain: "The result would have to be in that version too. Who answers in another one is understood by luck.",
		Check: func(b *Bench) {
			refusesEach(b, []wrong{
				conf("9.9.9", func(c string) string { return b.Set(c, "cniVersion", `"9.9.9"`) }),
				conf("one", func(c string) string { return b.Set(c, "cniVersion", `"one"`) }),
			})
		},
	}}
}

// configKeys are about its keys.
func configKeys() []Requirement {
	return []Requirement{{
		ID: "config/name", Level: Must, Section: "CNI 1.1.0, 1 (name), 3",
		Text:    "ADD with no network name, or one that is not made of letters, digits, dot, dash and underscore, fails, and makes nothing.",
		Explain: "The name becomes a part of file names and of labels: \"../x\" leaves the folder of the store, and two networks without names share everything.",
		Check: func(b *Bench) {
			rows := []wrong{conf("missing", func(c string) string { return b.Without(c, "name") })}
			for _, name := range []string{"", "a/b", "../x", "-x", ".x", "a b", "a\nb"} {
				rows = append(rows, conf(fmt.Sprintf("%q", name), func(c string) string { return b.Set(c, "name", quoted(name)) }))
			}
			refusesEach(b, rows)
		},
	}, {
		ID: "config/reserved", Level: Must, Section: "CNI 1.1.0, 1, 3 (Deriving request configuration)",
		Text:    "What runtimes put into a configuration beside the plugin's own keys is accepted: args, capabilities, runtimeConfig, cni.dev/*.",
		Explain: "A plugin that refuses unknown keys must know these: runtimes send them to every plugin, and new keys below cni.dev come with new versions.",
		Check: func(b *Bench) {
			c := b.Container()
			for _, kv := range [][2]string{
				{"args", `{"labels":{"a":"b"},"cni":{"x":1}}`}, {"capabilities", `{"portMappings":true}`},
				{"runtimeConfig", `{"conform.example/new":[1]}`}, {"cni.dev/new", `{"a":1}`},
			} {
				c.Add.Config = b.Set(c.Add.Config, kv[0], kv[1])
			}
			b.Attach(c)
			b.Succeeds(c.Del())
		},
	}, {
		ID: "config/typo", Level: Ours, Section: "CNI 1.1.0, 3 (\"may reject unknown keys\")",
		Text:    "A key that the plugin does not know is mentioned: by an error, or on stderr.",
		Explain: "A key with a typo is an option that is not in force, such as \"ipMasqerade\" or \"mtuu\", and it is found when packets get lost. Compare the keys with those you know, and say the nearest one.",
		Check:   configTypo,
	}}
}

// wrong is a call that must be refused.
type wrong struct {
	what   string
	change func(*Call)
}

// conf is a wrong configuration; the prevResult is left out where it cannot be put into it.
func conf(what string, change func(string) string) wrong {
	return wrong{"configuration: " + what, func(c *Call) {
		c.Config = change(c.Config)
		var object map[string]json.RawMessage
		if json.Unmarshal([]byte(c.Config), &object) != nil || object == nil || object["prevResult"] != nil {
			c.Prev = ""
		}
	}}
}

func quoted(s string) string {
	out, err := json.Marshal(s)
	if err != nil {
		panic(err) // a text
	}
	return string(out)
}

// refusesEach makes one ADD for each of the rows: it must fail, and all must be as before.
func refusesEach(b *Bench, rows []wrong) {
	b.Helper()
	c := b.Container()
	before := b.Settle(c)
	for _, row := range rows {
		call := c.Add
		row.change(&call)
		a := b.Run(call)
		if a.Exit == 0 {
			b.Errorf("%s: the call succeeded", row.what)
			b.Succeeds(c.Del())
		} else {
			b.explained(a, row.what+": the call")
		}
		if diff := before.Diff(b.Look(c)); diff != "" {
			b.Fatalf("%s: not as before (- gone, + left):\n%s", row.what, diff)
		}
	}
}

// configTypo puts an unknown key where those of the plugin are.
func configTypo(b *Bench) {
	c := b.Container()
	const key = "conformTypo"
	if b.Kind == skel.IPAM { // the keys beside the section are its caller's
		c.Add.Config = b.Set(c.Add.Config, "ipam", b.Set(b.Get(b.Base, "ipam"), key, "true"))
	} else {
		c.Add.Config = b.Set(c.Add.Config, key, "true")
	}
	a := b.Run(c.Add)
	if said := a.Stderr + a.Err.Msg + a.Err.Details; !strings.Contains(said, key) {
		b.Errorf("neither an error nor stderr mentions the unknown key %q; exit status %d, stderr: %q", key, a.Exit, a.Stderr)
	}
}
