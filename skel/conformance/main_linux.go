package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/cnikit/cnikit/skel"
	"github.com/cnikit/cnikit/skel/skeltest"
)

const usage = `usage: conformance -plugin PROGRAM -conf FILE [flags]
       conformance -list [-run PATTERN] [-explain]

Holds a CNI plugin against what the specification and runtimes want of it, on throw-away hosts. Needs root.

`

// options are the command line.
type options struct {
	target         skeltest.Target
	run            *regexp.Regexp
	json, explain  bool
	colour, listed bool
}

func main() {
	// A signal ends the requirement that is being judged, and what was made for it goes.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	ok, err := run(ctx)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(2)
	case !ok:
		os.Exit(1)
	}
}

// run does what the command line says; ok says that nothing failed.
func run(ctx context.Context) (ok bool, err error) {
	o, err := parse(os.Args[1:], os.Stderr)
	if err != nil {
		return false, err
	}
	st, err := os.Stdout.Stat()
	if _, child := os.LookupEnv(handed); !child && !o.listed {
		dir, err := handOn(o.target.Config)
		if err != nil {
			return false, err
		}
		defer os.RemoveAll(dir)
	}
	o.colour = err == nil && st.Mode()&os.ModeCharDevice != 0 && os.Getenv("NO_COLOR") == ""
	return o.judge(ctx, os.Stdout)
}

// handed marks the environment of the program that is started again for a requirement: the file that has the
// configuration. What -conf names is read once, since it may be a pipe, and may be edited during the run.
const handed = "CNIKIT_CONFORM_CONF"

// handOn writes the configuration to a file in a new folder, for the programs that are started for the requirements.
func handOn(config string) (dir string, err error) {
	dir, err = os.MkdirTemp("", "conform")
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "conf")
	if err = os.WriteFile(file, []byte(config), 0o600); err == nil {
		err = os.Setenv(handed, file)
	}
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(dir))
	}
	return dir, nil
}

// parse reads the command line.
func parse(args []string, stderr io.Writer) (*options, error) {
	o := &options{}
	flags := flag.NewFlagSet("conformance", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { fmt.Fprint(stderr, usage); flags.PrintDefaults() }
	plugin := flags.String("plugin", "", "the plugin's `program`")
	conf := flags.String("conf", "", "`file` with its configuration as a runtime sends it, or a conflist: its last plugin is judged, those before it run for real")
	setup := flags.String("setup", "", "`script` that prepares each host, which has the veth pair p0, p1, both up")
	path := flags.String("path", "", "CNI_PATH: `folders` of the delegates, with colons between; the plugin's own comes last")
	kind := flags.String("kind", "", "interface, chained, ipam or meta; default: chained where -conf lists several plugins, ipam where it is its own ipam, else interface")
	parent := flags.String("parent", "p0", "the `link` of the host that an attachment needs")
	flags.BoolVar(&o.target.Single, "single", false, "the configuration is for one attachment at a time")
	flags.BoolVar(&o.target.Stateless, "stateless", false, "an IPAM plugin keeps nothing: what is about leases does not apply")
	state := flags.String("state", strings.Join(skeltest.DefaultState(), ":"), "`folders` of the plugin's and its delegates' state, with colons between")
	volatile := flags.String("volatile", skeltest.DefaultVolatile, "`pattern` of files there that may differ when nothing is left")
	only := flags.String("run", "", "judge only requirements whose ID matches this `pattern` (and add/works)")
	flags.BoolVar(&o.json, "json", false, "print a line of JSON for each requirement")
	flags.BoolVar(&o.explain, "explain", false, "print the explanation of each requirement, not only of those that fail")
	flags.BoolVar(&o.listed, "list", false, "list the requirements, judge nothing")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	var err error
	if o.run, err = regexp.Compile(*only); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(skeltest.Requirements(), func(r skeltest.Requirement) bool { return o.run.MatchString(r.ID) }) {
		return nil, fmt.Errorf("-run %q: no requirement has such an ID; -list shows them", *only)
	}
	if o.listed {
		return o, nil
	}
	if *plugin == "" || *conf == "" || flags.NArg() > 0 {
		return nil, errors.New("-plugin and -conf are needed, and nothing besides flags; -help says more")
	}
	if o.target.Volatile, err = regexp.Compile(*volatile); err != nil {
		return nil, err
	}
	if o.target.Config, err = readConf(*conf); err != nil {
		return nil, err
	}
	program, err := filepath.Abs(*plugin)
	if err != nil {
		return nil, err
	}
	if _, err := exec.LookPath(program); err != nil {
		return nil, err
	}
	o.target.Plugin, o.target.Parent = skeltest.Binary(program), *parent
	o.target.Path, o.target.State = filepath.SplitList(*path), filepath.SplitList(*state)
	if *setup != "" {
		if o.target.Setup, err = script(*setup); err != nil {
			return nil, err
		}
	}
	o.target.Kind, err = kindOf(*kind, o.target.Config)
	return o, err
}

// readConf reads what -conf names, or in a program that was started again what was handed on.
func readConf(name string) (string, error) {
	file := name
	if copied, child := os.LookupEnv(handed); child {
		file = copied
	}
	config, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	if err := wholeList(config); err != nil {
		return "", fmt.Errorf("-conf %q: %w", name, err)
	}
	return string(config), nil
}

// wholeList says what a list of plugins lacks, which a runtime puts into the configuration of each.
func wholeList(config []byte) error {
	var list map[string]json.RawMessage
	if json.Unmarshal(config, &list) != nil || list["plugins"] == nil {
		return nil // no list; what is wrong with it is said by who reads it
	}
	for _, key := range []string{"cniVersion", "name"} {
		var text string
		if err := json.Unmarshal(list[key], &text); list[key] == nil || err != nil || text == "" {
			return fmt.Errorf("a list of plugins has a %s, which is a text; here it is %q", key, list[key])
		}
	}
	return nil
}

// script runs a program on the host as its setup.
func script(name string) (func(*skeltest.Bench), error) {
	if !strings.Contains(name, "/") { // a file like the others, nothing of PATH
		name = "./" + name
	}
	if _, err := exec.LookPath(name); err != nil {
		return nil, fmt.Errorf("-setup: %w", err)
	}
	return func(b *skeltest.Bench) {
		cmd := exec.Command(name)
		cmd.Env = append(os.Environ(), "PARENT="+b.Parent, "CNI_PATH="+strings.Join(b.Path, ":"))
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("setup %s: %v\n%s", name, err, out)
		}
	}, nil
}

// kindOf reads the flag, or guesses by the configuration.
func kindOf(name, config string) (skel.Kind, error) {
	if kind, ok := skeltest.Kinds()[name]; ok {
		return kind, nil
	} else if name != "" {
		return 0, fmt.Errorf("-kind %q: expected interface, chained, ipam or meta", name)
	}
	return skeltest.KindOf(config)
}

// chosen lists the requirements to judge.
func (o *options) chosen() []skeltest.Requirement {
	first := true
	return slices.DeleteFunc(skeltest.Requirements(), func(r skeltest.Requirement) bool {
		leave := !o.run.MatchString(r.ID) && !first
		first = false
		return leave
	})
}
