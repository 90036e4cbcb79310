package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"

	"github.com/cnikit/cnikit/internal/testbin"
	"github.com/cnikit/cnikit/skel"
	"github.com/cnikit/cnikit/skel/skeltest"
)

func TestMain(m *testing.M) { skeltest.Main(m) }

// write makes a file in a folder of the test's.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCommandLine(t *testing.T) {
	t.Parallel()
	plugin := write(t, "foo", "#!/bin/sh\n")
	conf := write(t, "foo.conf", `{"type":"foo"}`)
	list := write(t, "foo.conflist", `{"cniVersion":"1.0.0","name":"net","plugins":[{"type":"bar"},{"type":"foo"}]}`)
	bare := write(t, "bare.conflist", `{"name":"net","plugins":[{"type":"bar"},{"type":"foo"}]}`)
	unnamed := write(t, "unnamed.conflist", `{"cniVersion":"1.0.0","name":7,"plugins":[{"type":"bar"},{"type":"foo"}]}`)
	ipam := write(t, "ipam.conf", `{"type":"foo","ipam":{"type":"foo"}}`)
	for _, test := range []struct {
		args []string
		kind skel.Kind
		err  string
	}{
		{args: []string{"-plugin", plugin, "-conf", conf}, kind: skel.Interface},
		{args: []string{"-plugin", plugin, "-conf", list}, kind: skel.Chained},
		{args: []string{"-plugin", plugin, "-conf", ipam}, kind: skel.IPAM},
		{args: []string{"-plugin", plugin, "-conf", conf, "-kind", "meta"}, kind: skel.Meta},
		{args: []string{"-plugin", plugin, "-conf", conf, "-kind", "other"}, err: `-kind "other"`},
		{args: []string{"-plugin", plugin, "-conf", plugin}, err: "the configuration: "},
		{args: []string{"-plugin", plugin, "-conf", plugin + "x"}, err: "no such file"},
		{args: []string{"-plugin", conf + "x", "-conf", conf}, err: "no such file"},
		{args: []string{"-plugin", plugin}, err: "-conf"},
		{args: []string{"-plugin", plugin, "-conf", bare}, err: "has a cniVersion"},
		{args: []string{"-plugin", plugin, "-conf", unnamed}, err: "has a name, which is a text"},
		{args: []string{"-plugin", plugin, "-conf", conf, "-setup", plugin + "x"}, err: "-setup: "},
		{args: []string{"-plugin", plugin, "-conf", conf, "-setup", "setup-of-nobody"}, err: "-setup: "},
		{args: []string{"-plugin", plugin, "-conf", conf, "more"}, err: "nothing besides flags"},
		{args: []string{"-plugin", plugin, "-conf", conf, "-run", "("}, err: "missing closing )"},
		{args: []string{"-plugin", plugin, "-conf", conf, "-run", "^del/al$"}, err: "no requirement has such an ID"},
		{args: []string{"-list", "-run", "^del/al$"}, err: "no requirement has such an ID"},
		{args: []string{"-plugin", plugin, "-conf", conf, "-volatile", "("}, err: "missing closing )"},
		{args: []string{"-nonsense"}, err: "not defined"},
	} {
		o, err := parse(test.args, io.Discard)
		switch {
		case test.err == "" && (err != nil || o.target.Kind != test.kind):
			t.Errorf("%q: %v", test.args, err)
		case test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)):
			t.Errorf("%q: %v, expected %q", test.args, err, test.err)
		}
	}
	for _, flag := range []string{"-single", "-stateless"} {
		o, err := parse([]string{"-plugin", plugin, "-conf", ipam, flag}, io.Discard)
		if err != nil || o.target.Single != (flag == "-single") || o.target.Stateless != (flag == "-stateless") {
			t.Errorf("%s: %v, %+v", flag, err, o)
		}
	}
	if _, err := parse([]string{"-help"}, io.Discard); !errors.Is(err, flag.ErrHelp) {
		t.Error(err)
	}
}

// The table fits its width, whatever was seen, and loses nothing of it.
func TestTableFits(t *testing.T) {
	t.Parallel()
	o := &options{explain: true}
	for _, r := range skeltest.Requirements() {
		for _, status := range []skeltest.Status{skeltest.Pass, skeltest.Failed, skeltest.NotApplicable, skeltest.NotJudged} {
			detail := strings.Repeat("wörter und ", 40) + "\n" + strings.Repeat("ä", 300)
			row := o.row(r, skeltest.Outcome{ID: r.ID, Status: status, Detail: detail})
			for l := range strings.Lines(row) {
				if l = strings.TrimSuffix(l, "\n"); !utf8.ValidString(l) || len(l) > width && status != skeltest.NotApplicable {
					t.Errorf("%s: a line of %d bytes: %q", r.ID, len(l), l)
				}
			}
			if !strings.Contains(row, r.ID) || strings.Count(row, "ä") != 300 && status != skeltest.Pass {
				t.Errorf("%s: something is missing:\n%s", r.ID, row)
			}
		}
	}
	if plain := o.paint(skeltest.Failed); strings.Contains(plain, "\x1b") {
		t.Error("colours without a terminal")
	}
	if o.colour = true; !strings.Contains(o.paint(skeltest.Failed), "\x1b[1;31m") {
		t.Error("no colours on a terminal")
	}
}

// command builds the program; a test that asks for it fails where it cannot be built, but in a guest.
func command(t *testing.T) string {
	t.Helper()
	if testbin.Guest() {
		t.Skip("builds the command, and plugins with faults, and there is no go command in a guest; it is no matter of the kernel")
	}
	return filepath.Join(testbin.Tools(t, "", nil, "./skel/conformance"), "conformance")
}

// The program, from the outside: exit status, lines of JSON, the setup script, what an ADD that fails means.
func TestProgram(t *testing.T) {
	skeltest.NeedRoot(t)
	program := command(t)
	plugin := "../skeltest/testdata/sh-plugin"
	conf := write(t, "conf", `{"cniVersion":"1.1.0","name":"net","type":"sh-plugin","parent":"made0"}`)
	setup := write(t, "setup", "#!/bin/sh\nip link add made0 type veth peer name made1\n")
	args := func(more ...string) []string { return append([]string{"-plugin", plugin, "-conf", conf}, more...) }
	for _, test := range []struct {
		name string
		args []string
		exit int
		said string
	}{
		{"passes", args("-setup", setup, "-run", "^del/all$"), 0, "2 requirements: 2 passed, 0 failed, 0 not judged, 0 not applicable; "},
		{"ADD fails", args("-run", "^del/all$"), 1, "The other 1 are not judged"},
		{"setup fails", args("-setup", "/bin/false", "-run", "^add/works$"), 1, "setup /bin/false: exit status 1"},
		{"matches nothing", args("-setup", setup, "-run", "^del/al$"), 2, "no requirement has such an ID"},
		{"wrong flags", args("-kind", "other"), 2, `-kind "other"`},
		{"list", []string{"-list", "-explain", "-run", "^del/all$"}, 0, "What DEL leaves adds up"},
	} {
		t.Run(test.name, func(t *testing.T) {
			cmd := exec.Command(program, test.args...)
			out, _ := cmd.CombinedOutput() // the exit status is below
			if exit := cmd.ProcessState.ExitCode(); exit != test.exit || !strings.Contains(string(out), test.said) {
				t.Errorf("exit status %d, expected %d, with %q:\n%s", exit, test.exit, test.said, out)
			}
		})
	}
	t.Run("json", func(t *testing.T) {
		out, err := exec.Command(program, args("-json", "-setup", setup, "-run", "^del/all$")...).Output()
		lines := json.NewDecoder(strings.NewReader(string(out)))
		var first, second line
		if err != nil || lines.Decode(&first) != nil || lines.Decode(&second) != nil || lines.More() {
			t.Fatalf("%v: expected two lines of JSON: %s", err, out)
		}
		if second.ID != "del/all" || second.Status != skeltest.Pass || second.Level != skeltest.Must || second.Explain == "" || second.Took <= 0 {
			t.Errorf("%+v", second)
		}
	})
}

// A run that is ended by a signal leaves no folder behind, and says that it is none.
func TestSignalLeavesNoTemporaryFolder(t *testing.T) {
	skeltest.NeedRoot(t)
	program := command(t)
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		dir, pipe := t.TempDir(), filepath.Join(t.TempDir(), "pipe")
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Fatal(err)
		}
		setup := write(t, "setup", "#!/bin/sh\necho begun > "+pipe+"\nsleep 300\n")
		conf := write(t, "conf", `{"cniVersion":"1.1.0","name":"net","type":"sh-plugin"}`)
		cmd := exec.Command(program, "-plugin", "../skeltest/testdata/sh-plugin", "-conf", conf, "-setup", setup)
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr, cmd.Env = &said, &said, append(os.Environ(), "TMPDIR="+dir)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if _, err := os.ReadFile(pipe); err != nil { // until a requirement is being judged
			t.Fatal(err)
		}
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // the exit status is below
		left, err := os.ReadDir(dir)
		if err != nil || len(left) > 0 || cmd.ProcessState.ExitCode() != 2 || !strings.Contains(said.String(), "not all is judged") {
			t.Errorf("%v: exit status %d, %v has been left, %v\n%s", signal, cmd.ProcessState.ExitCode(), left, err, &said)
		}
	}
}

// What -conf names is read once: the program is started again for each requirement, and a pipe (<(jq ...)) is empty by then.
func TestConfigurationFromAPipe(t *testing.T) {
	skeltest.NeedRoot(t)
	program, tmp := command(t), t.TempDir()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	_, err = w.WriteString(`{"cniVersion":"1.1.0","name":"net","type":"sh-plugin"}`) // a pipe holds 64 KiB
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-plugin", "../skeltest/testdata/sh-plugin", "-conf", "/dev/fd/3", "-run", "^del/all$")
	cmd.ExtraFiles, cmd.Env = []*os.File{r}, append(os.Environ(), "TMPDIR="+tmp)
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "2 passed") {
		t.Errorf("%v\n%s", err, out)
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("%v has been left, %v", left, err)
	}
}

// A setup script finds the delegates, and what stands beside the plugin, where the plugin finds them.
func TestSetupGetsTheSameCNIPath(t *testing.T) {
	skeltest.NeedRoot(t)
	program, dir, out := command(t), t.TempDir(), t.TempDir()
	text, err := os.ReadFile("../skeltest/testdata/sh-plugin")
	if err != nil {
		t.Fatal(err)
	}
	wrapped := "#!/bin/sh\n[ $CNI_COMMAND != ADD ] || printf %s \"$CNI_PATH\" > " + out + "/plugin\nexec " + write(t, "sh-plugin", string(text)) + "\n"
	if err := os.WriteFile(filepath.Join(dir, "sh-plugin"), []byte(wrapped), 0o755); err != nil {
		t.Fatal(err)
	}
	setup := write(t, "setup", "#!/bin/sh\nprintf %s \"$CNI_PATH\" > "+out+"/setup\n")
	conf := write(t, "conf", `{"cniVersion":"1.1.0","name":"net","type":"sh-plugin"}`)
	said, err := exec.Command(program, "-plugin", filepath.Join(dir, "sh-plugin"), "-conf", conf, "-setup", setup, "-path", "/none:/other", "-run", "^add/works$").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	for _, who := range []string{"plugin", "setup"} {
		if got, err := os.ReadFile(filepath.Join(out, who)); err != nil || string(got) != "/none:/other:"+dir {
			t.Errorf("CNI_PATH of the %s: %q, %v", who, got, err)
		}
	}
}

// A folder of -state that was not there is not there afterwards, nor what is above it.
func TestStateFolderIsRemovedAgain(t *testing.T) {
	skeltest.NeedRoot(t)
	program, dir := command(t), t.TempDir()
	conf := write(t, "conf", `{"cniVersion":"1.1.0","name":"net","type":"sh-plugin"}`)
	state := "/var/lib/cni:" + filepath.Join(dir, "new", "state")
	out, err := exec.Command(program, "-plugin", "../skeltest/testdata/sh-plugin", "-conf", conf, "-state", state, "-run", "^add/works$").CombinedOutput()
	left, errRead := os.ReadDir(dir)
	if err != nil || errRead != nil || len(left) > 0 {
		t.Errorf("%v, %v has been left, %v\n%s", err, left, errRead, out)
	}
}
