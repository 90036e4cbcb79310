package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// event is a line of test2json.
type event struct {
	Action, Package, Test, Output string
}

// What became of a test in a pass. One that ran several times is what comes first here.
const (
	failed  = "fail"
	passed  = "pass"
	skipped = "skip"
)

// pass is what one pass said about the tests, by "package test"; the test is empty for the package itself.
type pass struct {
	label   string
	became  map[string]string
	running map[string]bool // what began and has not ended; false: it waits for its turn
	output  map[string][]string
}

func isTest(key string) bool { return !strings.HasSuffix(key, " ") }

// note keeps what became of a test, unless it is better than what became of it before.
func (p *pass) note(key, action string) {
	rank := func(a string) int { return slices.Index([]string{failed, passed, skipped, ""}, a) }
	if rank(action) < rank(p.became[key]) {
		p.became[key] = action
	}
}

// count counts the tests of which that became.
func (p *pass) count(action string) (n int) {
	for key, a := range p.became {
		if a == action && isTest(key) {
			n++
		}
	}
	return n
}

// report is what all passes said.
type report struct {
	passes []*pass
	told   map[string][]string // what is printed of a test that failed or was skipped
}

// read reads one pass.
func (r *report) read(label string, in io.Reader) error {
	p := &pass{label: label, became: map[string]string{}, running: map[string]bool{}, output: map[string][]string{}}
	r.passes = append(r.passes, p)
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.Package == "" {
			continue // what the go command itself says, such as an error of the build
		}
		key := e.Package + " " + e.Test
		switch e.Action {
		case "run", "cont":
			p.running[key] = true
		case "pause":
			p.running[key] = false
		case "output":
			p.output[key] = append(p.output[key], e.Output)
		case passed, failed, skipped:
			r.end(p, key, e.Action)
		}
	}
	r.died(p)
	return lines.Err()
}

// died lets the tests fail that began and did not end: their process died. One that waited for its turn has done
// nothing, and is not named unless its package has none that is to blame: one that hangs has hundreds of them.
func (r *report) died(p *pass) {
	blamed := map[string]bool{}
	blame := func(key string) {
		pkg, _, _ := strings.Cut(key, " ")
		blamed[pkg] = true
	}
	for key, action := range p.became {
		if action == failed && isTest(key) {
			blame(key)
		}
	}
	for key, runs := range p.running {
		if runs {
			blame(key)
		}
	}
	for key, runs := range p.running {
		if pkg, _, _ := strings.Cut(key, " "); runs || !blamed[pkg] {
			r.end(p, key, failed)
		}
	}
}

func (r *report) end(p *pass, key, action string) {
	before := r.became(key)
	p.note(key, action)
	delete(p.running, key)
	if action == failed || action == skipped && before != failed {
		r.told[key] = append([]string{}, p.output[key]...)
		if len(r.passes) > 1 && len(r.told[key]) > 0 {
			r.told[key] = append([]string{"in " + p.label + ":\n"}, r.told[key]...)
		}
	}
	delete(p.output, key)
}

// became is what became of a test in all passes: it failed if it failed in one, and was skipped if it ran in none.
func (r *report) became(key string) string {
	sum := pass{became: map[string]string{}}
	for _, p := range r.passes {
		sum.note(key, p.became[key])
	}
	return sum.became[key]
}

// keys are all tests and packages, sorted.
func (r *report) keys() []string {
	all := map[string]bool{}
	for _, p := range r.passes {
		for key := range p.became {
			all[key] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// table writes a line for each test, with what became of it in each pass.
func (r *report) table(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	var row strings.Builder
	for _, p := range r.passes {
		row.WriteString(p.label + "\t")
	}
	row.WriteString("test\n")
	for _, key := range r.keys() {
		if !isTest(key) {
			continue
		}
		for _, p := range r.passes {
			if became := p.became[key]; became != "" {
				row.WriteString(became)
			} else {
				row.WriteString("-")
			}
			row.WriteString("\t")
		}
		row.WriteString(key + "\n")
	}
	if _, err := io.WriteString(w, row.String()); err != nil {
		return err
	}
	return w.Flush()
}

// print names what went wrong, last, where the end of a long log shows it, and counts; it tells whether all is well.
func (r *report) print(out io.Writer) bool {
	failures := 0
	for _, p := range r.passes {
		ran := p.count(passed) + p.count(failed)
		fmt.Fprintf(out, "%s: %d tests ran, %d were skipped\n", p.label, ran, p.count(skipped))
		if ran == 0 {
			failures++
			fmt.Fprintf(out, "failed: the pass %s, which ran no test\n", p.label)
		}
	}
	if only := r.onlyInGuests(); len(only) > 0 {
		fmt.Fprintf(out, "in guests only:\n  %s\n", strings.Join(only, "\n  "))
	}
	keys := r.keys()
	slices.Reverse(keys) // a package after its tests
	passes, named := 0, map[string]bool{}
	var nowhere []string
	for _, key := range keys {
		pkg, test, _ := strings.Cut(key, " ")
		switch became := r.became(key); {
		case became == failed && (test != "" || !named[pkg]):
			named[pkg] = true
			failures++
			fmt.Fprintf(out, "failed: %s\n%s", key, strings.Join(r.told[key], ""))
		case became == passed && test != "":
			passes++
		case became == skipped && test != "": // a package without tests is skipped
			nowhere = append(nowhere, key)
		}
	}
	slices.Reverse(nowhere)
	for _, key := range nowhere {
		fmt.Fprintf(out, "skipped in every pass: %s\n%s", key, strings.Join(r.told[key], ""))
	}
	fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", passes, failures, len(nowhere))
	return failures == 0 && len(nowhere) == 0
}

// onlyInGuests lists the tests that ran in passes whose label begins with "guest" and in no other; of a test that
// ran elsewhere too, how many of its subtests did not.
func (r *report) onlyInGuests() (only []string) {
	subtests := map[string]int{}
	for _, key := range r.keys() {
		ran := map[bool]bool{}
		for _, p := range r.passes {
			if a := p.became[key]; a == passed || a == failed {
				ran[strings.HasPrefix(p.label, "guest")] = true
			}
		}
		if !isTest(key) || !ran[true] || ran[false] {
			continue
		}
		pkg, test, _ := strings.Cut(key, " ")
		if top, _, is := strings.Cut(test, "/"); is {
			subtests[pkg+" "+top]++
		} else {
			only = append(only, key)
		}
	}
	for test, n := range subtests {
		if !slices.Contains(only, test) {
			only = append(only, fmt.Sprintf("%s: %d of its subtests", test, n))
		}
	}
	slices.Sort(only)
	return only
}
