// Command ranall reads what several passes of the tests printed (test2json's lines), each pass labelled with who
// ran it and in which kernel, and sees to it that each test ran in one of them at least:
//
//	ranall [-table FILE] unit-6.18=unit.json root-6.18=root.json guest-6.12=guest.json
//
// What needs root is skipped by nobody's pass, what needs the go command by a guest's, what needs a kind of link that
// the host's kernel lacks by all but a guest's; but a test that every pass skipped has run nowhere.
//
// It prints of each pass how many tests ran, names those that ran in guests only, and ends with a line
// "N passed, N failed, N skipped". -table writes a line for each test that says what became of it in each pass. The
// exit code is 1 if a test failed, if a package failed without a failing test (it did not build, or died), if a test
// was skipped in every pass, or if a pass ran none; each is named, a test with its output.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	table := flag.String("table", "", "write what became of each test in each pass to this `file`")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: ranall [-table FILE] LABEL=FILE...")
		os.Exit(2)
	}
	flag.Parse()
	if flag.NArg() == 0 {
		flag.Usage()
	}
	r, err := readAll(flag.Args())
	if err == nil && *table != "" {
		err = write(*table, r.table)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "ranall:", err)
		os.Exit(2)
	}
	if !r.print(os.Stdout) {
		os.Exit(1)
	}
}

func readAll(args []string) (*report, error) {
	r := &report{told: map[string][]string{}}
	for _, arg := range args {
		label, name, ok := strings.Cut(arg, "=")
		if !ok || label == "" {
			return nil, fmt.Errorf("%q is not LABEL=FILE", arg)
		}
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		err = r.read(label, f)
		_ = f.Close() // was only read
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return r, nil
}

func write(name string, content func(io.Writer) error) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := content(f); err != nil {
		_ = f.Close() // the first error counts
		return err
	}
	return f.Close()
}
