package skeltest

import (
	_ "embed"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

//go:embed ipam.sh
var ipamScript []byte

// IPAM is an IPAM plugin for tests, a program of its own of the type "test-ipam": it keeps each
// reservation as a file, as host-local does, and is as strict about the protocol. The default answer of
// its ADD is 10.1.0.N/24 and fd00:1::N/64 with the gateways 10.1.0.1 and fd00:1::1, where N is the lowest
// free number from 2.
type IPAM struct {
	Path string // CNI_PATH: where the program is
	dir  string
	t    testing.TB
}

// NewIPAM installs the plugin in a folder of the test's.
func NewIPAM(t testing.TB) *IPAM {
	t.Helper()
	dir := t.TempDir()
	i := &IPAM{Path: dir, dir: dir, t: t}
	i.write("test-ipam", string(ipamScript), 0o755)
	if err := os.Mkdir(filepath.Join(dir, "reserved"), 0o755); err != nil {
		t.Fatal(err)
	}
	i.Answer(`{"cniVersion":"1.0.0","ips":[{"address":"10.1.0.@N@/24","gateway":"10.1.0.1"},{"address":"fd00:1::@N@/64","gateway":"fd00:1::1"}]}`)
	return i
}

func (i *IPAM) write(name, content string, mode os.FileMode) {
	i.t.Helper()
	if err := os.WriteFile(filepath.Join(i.dir, name), []byte(content), mode); err != nil {
		i.t.Fatal(err)
	}
}

// Answer sets what ADD prints from now on; @N@ in it stands for the number of the reservation.
func (i *IPAM) Answer(document string) { i.write("answer", document, 0o644) }

// Exit sets the exit status of ADD after it has printed its answer, whatever that is; "" makes it 0 again.
func (i *IPAM) Exit(status string) {
	i.t.Helper()
	if status != "" {
		i.write("exit", status, 0o644)
		return
	}
	if err := os.Remove(filepath.Join(i.dir, "exit")); err != nil && !os.IsNotExist(err) {
		i.t.Fatal(err)
	}
}

// Input is the stdin of the last call of a verb, "" if there was none.
func (i *IPAM) Input(verb string) string {
	i.t.Helper()
	data, err := os.ReadFile(filepath.Join(i.dir, "input."+verb))
	if err != nil && !os.IsNotExist(err) {
		i.t.Fatal(err)
	}
	return string(data)
}

// Fail makes a verb print an error document with code 101 and exit with 1, after its work, until Heal.
func (i *IPAM) Fail(verb string) { i.write("fail."+verb, "", 0o644) }

// Hang makes a verb wait before its work, until Heal.
func (i *IPAM) Hang(verb string) { i.write("hang."+verb, "", 0o644) }

// Hold makes a verb wait after its work, until Heal.
func (i *IPAM) Hold(verb string) { i.write("hold."+verb, "", 0o644) }

// Heal takes all of Fail, Hang and Hold back.
func (i *IPAM) Heal() {
	i.t.Helper()
	for _, pattern := range []string{"fail.*", "hang.*", "hold.*"} {
		files, err := filepath.Glob(filepath.Join(i.dir, pattern))
		if err != nil {
			i.t.Fatal(err)
		}
		for _, f := range files {
			if err := os.Remove(f); err != nil {
				i.t.Fatal(err)
			}
		}
	}
}

// Reserved lists the reservations, "NUMBER CONTAINERID IFNAME" each.
func (i *IPAM) Reserved() []string {
	i.t.Helper()
	files, err := filepath.Glob(filepath.Join(i.dir, "reserved", "*"))
	if err != nil {
		i.t.Fatal(err)
	}
	out := []string{}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			i.t.Fatal(err)
		}
		out = append(out, filepath.Base(f)+" "+strings.TrimSpace(string(data)))
	}
	slices.Sort(out)
	return out
}

// Calls lists the verbs that were called, in order.
func (i *IPAM) Calls() []string {
	i.t.Helper()
	data, err := os.ReadFile(filepath.Join(i.dir, "calls"))
	if err != nil && !os.IsNotExist(err) {
		i.t.Fatal(err)
	}
	return strings.Fields(string(data))
}

// Hanging waits until a call hangs, as Hang or Hold made it, and returns its process id. The test fails
// after ten seconds.
func (i *IPAM) Hanging() (pid int) {
	i.t.Helper()
	Eventually(i.t, "a call of test-ipam hangs", func() bool { pid = i.hangs(); return pid > 0 })
	return pid
}

// hangs is the process id of a call that hangs; 0 if none has hung yet.
func (i *IPAM) hangs() (pid int) {
	data, err := os.ReadFile(filepath.Join(i.dir, "pid"))
	if err == nil {
		pid, err = strconv.Atoi(strings.TrimSpace(string(data)))
	}
	if err != nil {
		return 0
	}
	return pid
}

// Eventually waits until a condition holds, looking every 5 ms; the test fails when it does not within
// ten seconds.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within ten seconds: %s", what)
		}
	}
}
