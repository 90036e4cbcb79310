package guest

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const panics = "echo c > /proc/sysrq-trigger"

func TestPanic(t *testing.T) {
	s := command(t, "run", "-k", "uml", "sh", "-c", "echo before; "+panics)
	if got := s.status(t); got != 125 {
		t.Errorf("status %d, expected 125", got)
	}
	if s.stdout.String() != "before\n" || !strings.Contains(s.stderr.String(), "Kernel panic") {
		t.Error("not what was printed before, and the console")
	}
	s.nothingRuns(t)
}

// A package that fails, hangs, or takes the guest down does not hide the others.
func TestTests(t *testing.T) {
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "out")
	var list strings.Builder
	for _, p := range []struct{ name, script string }{
		{"x/first", "echo '\x16=== RUN   TestA'; echo '\x16--- PASS: TestA (0.00s)'; echo '\x16PASS'"},
		{"x/dies", "echo '\x16=== RUN   TestB'; " + panics},
		{"x/fails", "echo '\x16=== RUN   TestC'; echo \"$@\"; echo '\x16--- FAIL: TestC (0.00s)'; echo '\x16FAIL'; exit 1"},
		{"x/hangs", "echo '\x16=== RUN   TestD'; sleep 1000"},
		{"x/lies", "echo '\x16=== RUN   TestE'; echo '\x16--- PASS: TestE (0.00s)'; echo '\x16PASS'; exit 3"},
		{"x/last", "echo '\x16=== RUN   TestF'; echo '\x16--- PASS: TestF (0.00s)'; echo '\x16PASS'"},
	} {
		binary := filepath.Join(dir, filepath.Base(p.name))
		write(t, binary, "#!/bin/sh\n"+p.script+"\n")
		list.WriteString(p.name + " / " + binary + "\n")
	}
	write(t, filepath.Join(dir, "list"), list.String())
	s := command(t, "tests", "-k", "uml", "-t", "17", "-o", out, filepath.Join(dir, "list"), "-test.x='a  b'")
	if got := s.status(t); got != 125 {
		t.Errorf("status %d, expected 125: a guest died", got)
	}
	events := read(t, filepath.Join(out, "tests.json"))
	for _, want := range []string{
		`"pass","Package":"x/first","Test":"TestA"`, `"pass","Package":"x/first"`,
		`"Package":"x/dies","Test":"TestB","Output":"`, "Kernel panic", `"fail","Package":"x/dies"`,
		`"fail","Package":"x/fails","Test":"TestC"`, "-test.timeout=2s -test.x='a  b'",
		`"Package":"x/hangs","Test":"TestD","Output":"guest: not done after 17s`, `"fail","Package":"x/hangs"`,
		`"fail","Package":"x/lies"`, `"pass","Package":"x/last","Test":"TestF"`,
	} {
		if !strings.Contains(events, want) {
			t.Errorf("tests.json has no %s", want)
		}
	}
	for _, no := range []string{`"fail","Package":"x/first"`, `"fail","Package":"x/last"`} {
		if strings.Contains(events, no) {
			t.Errorf("tests.json has %s", no)
		}
	}
	if t.Failed() {
		t.Log(events)
	}
}

// Coverage comes back: of tests, and of programs that were built with -cover.
func TestCoverage(t *testing.T) {
	needRoot(t)
	dir, out := t.TempDir(), t.TempDir()
	write(t, filepath.Join(dir, "go.mod"), "module example.com/sample\n")
	write(t, filepath.Join(dir, "main.go"), "package main\n\nfunc main() { covered() }\n\nfunc covered() { println(1) }\n")
	write(t, filepath.Join(dir, "main_test.go"), "package main\n\nimport \"testing\"\n\nfunc TestIt(*testing.T) { covered() }\n")
	for _, args := range [][]string{{"test", "-c", "-cover", "-o", "sample.test"}, {"build", "-cover", "-o", "sample"}} {
		cmd := exec.Command("go", args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	s := command(t, "run", "-k", "uml", "-o", out, "sh", "-c",
		"cd "+dir+` && ./sample.test -test.coverprofile=$GUEST_OUT/profile && mkdir $GUEST_OUT/data && GOCOVERDIR=$GUEST_OUT/data ./sample`)
	if got := s.status(t); got != 0 {
		t.Fatalf("status %d", got)
	}
	if profile := read(t, filepath.Join(out, "profile")); !strings.Contains(profile, "main.go:5.16,5.30 1 1") {
		t.Errorf("profile %s", profile)
	}
	if said, err := exec.Command("go", "tool", "covdata", "percent", "-i", filepath.Join(out, "data")).CombinedOutput(); err != nil || !strings.Contains(string(said), "100.0%") {
		t.Errorf("data: %s, %v", said, err)
	}
}

// Two set-ups at once fetch once; one that was interrupted is done anew; a failed one leaves nothing that looks done.
func TestSetup(t *testing.T) {
	if got := command(t, "setup", "uml").status(t); got != 0 { // the real one, for its module
		t.Fatalf("status %d", got)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	// An apt-get that gives a package of ours, and says that it was asked. It fails without one.
	modules := filepath.Join(dir, "deb/usr/lib/uml/modules/1.0/kernel/fs/overlayfs")
	for _, d := range []string{modules, filepath.Join(dir, "deb/DEBIAN"), filepath.Join(dir, "bin")} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	early, err := filepath.Glob(filepath.Join(cache, "cnikit/guest/uml/early/*-overlay.ko"))
	if err != nil || len(early) != 1 {
		t.Fatal(early, err)
	}
	write(t, filepath.Join(modules, "overlay.ko"), read(t, early[0]))
	write(t, filepath.Join(dir, "deb/DEBIAN/control"), "Package: user-mode-linux\nVersion: 1\nArchitecture: amd64\nMaintainer: x\nDescription: x\n")
	write(t, filepath.Join(dir, "bin/apt-get"), "#!/bin/sh\necho \"$@\" >> "+dir+"/asked\nexec cp "+dir+"/x.deb .\n")
	setup := func() *script {
		s := command(t, "setup", "uml")
		s.Env = append(s.Env, "XDG_CACHE_HOME="+filepath.Join(dir, "cache"), "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
		return s
	}
	if got := setup().status(t); got != 125 {
		t.Errorf("without a package: status %d, expected 125", got)
	}
	if out, err := exec.Command("dpkg-deb", "-b", filepath.Join(dir, "deb"), filepath.Join(dir, "x.deb")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	write(t, filepath.Join(dir, "asked"), "")
	write(t, filepath.Join(dir, "cache/cnikit/guest/uml.new/half"), "") // left by the first
	first, second := setup(), setup()
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	if got := second.status(t); got != 0 {
		t.Errorf("status %d", got)
	}
	if err := first.Wait(); err != nil {
		t.Errorf("%v\n%s", err, &first.stderr)
	}
	if got := setup().status(t); got != 0 {
		t.Errorf("again: status %d", got)
	}
	if asked := read(t, filepath.Join(dir, "asked")); strings.Count(asked, "download") != 1 {
		t.Errorf("apt-get was asked for\n%s", asked)
	}
	kernel := filepath.Join(dir, "cache/cnikit/guest/uml")
	if _, err := os.Stat(filepath.Join(kernel, "half")); !os.IsNotExist(err) {
		t.Error("what an interrupted set-up left is used")
	}
	read(t, filepath.Join(kernel, "early/10-overlay.ko"))
}
