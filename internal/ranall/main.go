// Command ranall reads what several passes of the tests printed (test2json's lines, from the files named
// as arguments) and sees to it that each test ran in one of them at least: what needs root is skipped by
// nobody's pass and the other way round, but a test that every pass skipped has run nowhere.
//
// It prints "N passed, N failed, N skipped" on a line of its own, last. The exit code is 1 if a test
// failed, if a package failed without a failing test (it did not build, or died), or if a test was
// skipped in every pass; each is named, with its output.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: ranall FILE...")
		os.Exit(2)
	}
	r := newReport()
	for _, name := range os.Args[1:] {
		f, err := os.Open(name)
		if err == nil {
			err = r.read(f)
			_ = f.Close() // was only read
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "ranall:", err)
			os.Exit(2)
		}
	}
	if !r.print(os.Stdout) {
		os.Exit(1)
	}
}

// event is a line of test2json.
type event struct {
	Action, Package, Test, Output string
}

// report is what all passes said about the tests, by "package test"; the test is empty for the package itself.
type report struct {
	passed, failed, skipped map[string]bool
	running                 map[string]bool     // in this pass
	output                  map[string][]string // in this pass
	told                    map[string][]string // what is printed of a test that failed or was skipped
}

func newReport() *report {
	return &report{passed: map[string]bool{}, failed: map[string]bool{}, skipped: map[string]bool{}, told: map[string][]string{}}
}

// read reads one pass. A test that began and did not end failed: its process died.
func (r *report) read(in io.Reader) error {
	r.running, r.output = map[string]bool{}, map[string][]string{}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil || e.Package == "" {
			continue // what the go command itself says, such as an error of the build
		}
		key := e.Package + " " + e.Test
		switch e.Action {
		case "run":
			r.running[key] = true
		case "output":
			r.output[key] = append(r.output[key], e.Output)
		case "pass", "fail", "skip":
			map[string]map[string]bool{"pass": r.passed, "fail": r.failed, "skip": r.skipped}[e.Action][key] = true
			delete(r.running, key)
			if e.Action == "fail" || e.Action == "skip" && !r.failed[key] {
				r.told[key] = r.output[key]
			}
			delete(r.output, key)
		}
	}
	for key := range r.running {
		r.failed[key] = true
		r.told[key] = r.output[key]
	}
	return lines.Err()
}

// print names what went wrong and counts; it tells whether all is well.
func (r *report) print(out io.Writer) bool {
	var failed, nowhere []string
	passed, byPackage := 0, map[string]bool{}
	for key := range r.failed {
		failed = append(failed, key)
	}
	slices.Sort(failed)
	slices.Reverse(failed) // a package after its tests
	count := 0
	for _, key := range failed {
		pkg, test, _ := strings.Cut(key, " ")
		if test == "" && byPackage[pkg] {
			continue // its tests were named
		}
		byPackage[pkg] = true
		count++
		fmt.Fprintf(out, "failed: %s\n%s", key, strings.Join(r.told[key], ""))
	}
	for key := range r.passed {
		if !r.failed[key] && !strings.HasSuffix(key, " ") {
			passed++
		}
	}
	for key := range r.skipped {
		if !r.failed[key] && !r.passed[key] && !strings.HasSuffix(key, " ") { // a package without tests is skipped
			nowhere = append(nowhere, key)
		}
	}
	slices.Sort(nowhere)
	for _, key := range nowhere {
		fmt.Fprintf(out, "skipped in every pass: %s\n%s", key, strings.Join(r.told[key], ""))
	}
	fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", passed, count, len(nowhere))
	return count == 0 && len(nowhere) == 0 && passed > 0
}
