package delegate_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/netconf"
)

func TestLookup(t *testing.T) {
	t.Parallel()
	const ok = `echo '{"ips":[{"address":"10.0.0.%d/24"}]}'`
	first, second := program(t, fmt.Sprintf(ok, 1)), program(t, fmt.Sprintf(ok, 2))
	folder, plainFile, empty := t.TempDir(), t.TempDir(), t.TempDir()
	if err := os.Mkdir(filepath.Join(folder, "fake"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(plainFile, "fake"), "#!/bin/sh\n", 0o644)
	for _, c := range []struct {
		name  string
		path  []string
		typ   string // "" is the configuration's
		want  string // address
		code  uint
		words []string
	}{
		{"first folder counts", []string{first, second}, "", "10.0.0.1", 0, nil},
		{"order of the folders", []string{empty, second, first}, "", "10.0.0.2", 0, nil},
		{"a folder of that name is passed over", []string{folder, second}, "", "10.0.0.2", 0, nil},
		{"a file without x is passed over", []string{plainFile, second}, "", "10.0.0.2", 0, nil},
		{"a folder that does not exist", []string{"/nowhere", second}, "", "10.0.0.2", 0, nil},
		{"the type given", []string{first}, "other", "", 5, []string{`"other"`, first}},
		{"nowhere", []string{empty, first}, "absent", "", 5, []string{`delegate "absent" ADD, network "net"`, "CNI_PATH", empty, first}},
		{"no CNI_PATH", nil, "", "", 5, []string{`looked for "fake", and CNI_PATH is empty`}},
		{"a letter too few", []string{empty, first}, "fak", "", 5, []string{`["` + empty + `" "` + first + `"]`}},
		{"a letter too many", []string{empty, first}, "f-ake", "", 5, []string{`; there is "fake"`}},
		{"another letter", []string{first}, "Fale", "", 5, []string{`; there is "fake"`}},
		{"two letters swapped", []string{first}, "faek", "", 5, []string{`; there is "fake"`}},
		{"why it was passed over", []string{folder, plainFile}, "", "", 5, []string{"is a folder", "is not executable"}},
		{"path separator", []string{first}, "../fake", "", 7, []string{`"../fake"`}},
		{"absolute", []string{first}, first + "/fake", "", 7, nil},
		{"backslash", []string{first}, `x\fake`, "", 7, nil},
		{"dot", []string{first}, ".", "", 7, nil},
		{"dots", []string{first}, "..", "", 7, nil},
		{"NUL", []string{first}, "fake\x00", "", 7, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := quiet()
			e.Type = c.typ
			result, err := e.Call(t.Context(), call(t, netconf.Add, plain, c.path...))
			if c.want != "" {
				if err != nil || result.IPs[0].Address.IP.String() != c.want {
					t.Fatalf("result %v, error %v: expected %s", result, err, c.want)
				}
				return
			}
			wants(t, err, c.code, c.words...)
			if found := errors.Is(err, delegate.ErrNotFound); found != (c.code == 5) {
				t.Errorf("Is ErrNotFound: %v", found)
			}
		})
	}
}

func TestNoNameAndNoVerb(t *testing.T) {
	t.Parallel()
	dir := program(t, "echo {}")
	req := call(t, netconf.Add, `{"cniVersion":"1.1.0","name":"net"}`, dir)
	_, err := quiet().Call(t.Context(), req)
	wants(t, err, 7, "no name")
	req = call(t, netconf.Add, plain, dir).As("WIPE")
	_, err = quiet().Call(t.Context(), req)
	wants(t, err, 4, "WIPE")
	_, err = quiet().Call(t.Context(), call(t, netconf.Status, plain, t.TempDir()))
	wants(t, err, 50, "CNI_PATH")
}

// The program sees the request's own environment and nothing of this process's.
func TestEnvironment(t *testing.T) {
	t.Parallel()
	for _, command := range []netconf.Command{netconf.Add, netconf.Check, netconf.Del, netconf.GC, netconf.Status} {
		t.Run(string(command), func(t *testing.T) {
			t.Parallel()
			dir := program(t, `env > "$0.env"; echo "{}"`)
			req := call(t, command, plain, dir, "/opt")
			if _, err := quiet().Call(t.Context(), req); err != nil {
				t.Fatal(err)
			}
			var got []string
			for line := range strings.Lines(read(t, filepath.Join(dir, "fake.env"))) {
				key, _, _ := strings.Cut(line, "=")
				if !slices.Contains([]string{"PWD", "OLDPWD", "SHLVL", "_"}, key) { // the shell's own
					got = append(got, strings.TrimSuffix(line, "\n"))
				}
			}
			want := []string{"CNI_COMMAND=" + string(command), "CNI_PATH=" + dir + ":/opt", "OWN=word", "PATH=" + os.Getenv("PATH"),
				"CNI_CONTAINERID=c1", "CNI_NETNS=/run/netns/none", "CNI_IFNAME=eth0"}
			if command == netconf.Add || command == netconf.Check || command == netconf.Del {
				want = append(want, "CNI_ARGS=IgnoreUnknown=1;A=b=c;K8S_POD_UID=")
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("got  %q\nwant %q", got, want)
			}
		})
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// Also what does not fit into a pipe of the usual size, or into any.
func TestConfigurationByteForByte(t *testing.T) {
	t.Parallel()
	odd := "\n {\"cniVersion\":\"1.1.0\" , \"name\":\"net\",\"type\":\"fake\",\"n\":9007199254740993, \"e\":1E21,\"n\":\"\\u0041\"}\n\n"
	for _, size := range []int{0, 60 << 10, 100 << 10, 900 << 10, 3 << 20} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			config := patch(t, odd, "fill", `"`+strings.Repeat("x", size)+`"`)
			dir := program(t, `cat > "$0.stdin"; echo "{}"`)
			if _, err := quiet().Call(t.Context(), call(t, netconf.Add, config, dir)); err != nil {
				t.Fatal(err)
			}
			if got := read(t, filepath.Join(dir, "fake.stdin")); got != config {
				t.Errorf("%d bytes instead of %d, or others", len(got), len(config))
			}
		})
	}
}

// A program that does not read its configuration is no reason to fail, or to wait.
func TestProgramThatReadsNothing(t *testing.T) {
	t.Parallel()
	config := patch(t, plain, "fill", `"`+strings.Repeat("x", 200<<10)+`"`)
	if _, err := quiet().Call(t.Context(), call(t, netconf.Add, config, program(t, "exec <&-; echo {}"))); err != nil {
		t.Fatal(err)
	}
}

const said = `{"cniVersion":"1.1.0","code":%d,"msg":"no room","details":"in 10.0.0.0/24"}`

var answers = []struct {
	name    string
	command netconf.Command
	script  string
	code    uint // 0: no error
	words   []string
}{
	{"a result", netconf.Add, `echo '{"cniVersion":"1.1.0"}'`, 0, nil},
	{"space around a result", netconf.Add, `printf '\n\n {} \n\n'`, 0, nil},
	{"nothing", netconf.Add, `true`, 104, []string{`delegate "fake" ADD, network "net"`, "exit status 0", "stdout is empty"}},
	{"blanks", netconf.Add, `echo`, 104, []string{"stdout is empty"}},
	{"no JSON", netconf.Add, `echo hello`, 104, []string{"exit status 0", "not JSON", "hello"}},
	{"half a document", netconf.Add, `printf '{"cniVersion":'`, 104, []string{"not JSON"}},
	{"two documents", netconf.Add, `echo '{"ips":[]}{"ips":[]}'`, 104, []string{"exit status 0", "more than one JSON document"}},
	{"a word behind it", netconf.Add, `echo '{} bye'`, 104, []string{"not JSON", "bye"}},
	{"a word before it", netconf.Add, `echo 'debug {}'`, 104, []string{"not JSON", "debug"}},
	{"an array", netconf.Add, `echo '[]'`, 104, []string{"expected an object"}},
	{"null", netconf.Add, `echo null`, 104, []string{"expected an object"}},
	{"a bad address", netconf.Add, `echo '{"ips":[{"address":"10.0.0.256/24"}]}'`, 104, []string{"ips[0].address"}},
	{"an unknown version", netconf.Add, `echo '{"cniVersion":"9.0.0"}'`, 104, []string{"9.0.0"}},
	{"an error with status 0", netconf.Add, fmt.Sprintf("echo '"+said+"'", 11), 104, []string{"exit status 0", "no room", "11"}},
	{"an error without a code, status 0", netconf.Add, `echo '{"msg":"oh"}'`, 104, []string{"oh"}},
	{"an error", netconf.Add, fmt.Sprintf("echo '"+said+"'; exit 1", 11), 11, []string{`delegate "fake" ADD, network "net"`, "no room", "in 10.0.0.0/24"}},
	{"its own code", netconf.Add, fmt.Sprintf("echo '"+said+"'; exit 1", 142), 142, []string{"no room"}},
	{"code 3", netconf.Add, fmt.Sprintf("echo '"+said+"'; exit 1", 3), 11, []string{"no room"}},
	{"code 0", netconf.Add, fmt.Sprintf("echo '"+said+"'; exit 1", 0), 104, []string{"without a code", "no room"}},
	{"details that are an object", netconf.Add, `echo '{"code":7,"msg":"bad","details":{"a":1}}'; exit 1`, 7, []string{"bad", `{"a":1}`}},
	{"status 1 and nothing", netconf.Add, `exit 1`, 104, []string{"exit status 1", "no error document"}},
	{"status 3 and a result", netconf.Add, `echo '{"ips":[]}'; exit 3`, 104, []string{"exit status 3", "no error document"}},
	{"status 1 and a word", netconf.Add, `echo boom; exit 1`, 104, []string{"exit status 1", "boom"}},
	{"a result and an error", netconf.Add, fmt.Sprintf("echo '{}"+said+"'; exit 1", 11), 104, []string{"exit status 1", "no room"}},
	{"killed", netconf.Add, `kill -9 $$`, 104, []string{"signal: killed"}},
	{"too much", netconf.Add, `exec cat /dev/zero`, 104, []string{"8 MiB"}},
	{"DEL is silent", netconf.Del, `true`, 0, nil},
	{"DEL prints", netconf.Del, `echo done`, 0, nil},
	{"DEL prints a message", netconf.Del, `echo '{"msg":"done"}'`, 0, nil},
	{"DEL prints a result", netconf.Del, `echo '{"cniVersion":"1.1.0"}'`, 0, nil},
	{"DEL fails", netconf.Del, fmt.Sprintf("echo '"+said+"'; exit 1", 105), 105, []string{`delegate "fake" DEL`, "no room"}},
	{"DEL with code 3", netconf.Del, fmt.Sprintf("echo '"+said+"'; exit 1", 3), 11, nil},
	{"DEL fails with status 0", netconf.Del, fmt.Sprintf("echo '"+said+"'", 11), 104, []string{"no room"}},
	{"CHECK fails", netconf.Check, fmt.Sprintf("echo '"+said+"'; exit 1", 102), 102, nil},
	{"GC fails without a word", netconf.GC, `exit 2`, 104, []string{"GC", "exit status 2"}},
	{"an error before a result, status 0", netconf.Del, `printf '{"code":101,"msg":"full"}\n{}\n'`, 104, []string{"exit status 0", "more than one", "full", "101"}},
	{"an error of many documents, status 0", netconf.Add, `printf '{}{}{}{}{"code":101,"msg":"full"}{}'`, 104, []string{"full"}},
	{"an error behind a word, status 0", netconf.Status, `printf 'noise\n{"code":50,"msg":"not ready"}\n'`, 104, []string{"not ready", "50"}},
	{"an error between words, status 0", netconf.Del, `printf 'noise\n{"code":105,"msg":"locked"}\nbye\n'`, 104, []string{"locked"}},
	{"an error in one line with a word, status 0", netconf.Del, `printf '{"code":105,"msg":"locked"} bye\n'`, 104, []string{"locked"}},
	{"an error behind a log", netconf.Add, `i=0; while [ $i -lt 30 ]; do echo "level=info line $i of a log"; i=$((i+1)); done; echo '{"code":11,"msg":"no room"}'; exit 1`, 104, []string{"exit status 1", "no room", "code 11"}},
	{"an error of several lines behind a log", netconf.Add, `i=0; while [ $i -lt 30 ]; do echo "level=info line $i of a log"; i=$((i+1)); done; printf '{\n"code": 11,\n"msg": "no room"\n}\n'; exit 1`, 104, []string{"exit status 1", "no room"}},
	{"words behind a log", netconf.Add, `i=0; while [ $i -lt 30 ]; do echo "level=info line $i of a log"; i=$((i+1)); done; echo 'panic: no room'; exit 1`, 104, []string{"level=info line 0", "panic: no room"}},
	{"an error without a message", netconf.Add, `echo '{"code":7}'; exit 1`, 7, []string{"code 7, without a message", "exit status 1"}},
	{"an error without a message, with details", netconf.Del, `echo '{"code":11,"details":"why"}'; exit 2`, 11, []string{"code 11, without a message", "exit status 2", "why"}},
	{"an error without a message, status 0", netconf.Del, `echo '{"code":7}'`, 104, []string{"code 7, without a message"}},
	{"STATUS", netconf.Status, fmt.Sprintf("echo '"+said+"'; exit 1", 51), 51, []string{"STATUS"}},
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range answers {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			result, err := quiet().Call(t.Context(), call(t, c.command, plain, program(t, c.script)))
			if c.code == 0 {
				if err != nil || (result != nil) != (c.command == netconf.Add) {
					t.Fatalf("result %v, error %v", result, err)
				}
				return
			}
			wants(t, err, c.code, c.words...)
			var own *delegate.Error
			var coded *types.Error
			if !errors.As(err, &own) || !errors.As(err, &coded) || coded.Code != c.code {
				t.Errorf("not a *delegate.Error and a *types.Error: %#v", err)
			}
			var exit *exec.ExitError
			if strings.Contains(err.Error(), "exit status 1") && !errors.As(err, &exit) {
				t.Errorf("no *exec.ExitError in %v", err)
			}
		})
	}
}

// An answer in any version is converted; without a version it is taken to be of the configuration's.
func TestAnswerOfAnyVersion(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ conf, answer string }{
		{"1.1.0", `{"cniVersion":"0.2.0","ip4":{"ip":"10.0.0.3/24"}}`},
		{"1.1.0", `{"ip4":{"ip":"10.0.0.3/24"}}`},
		{"0.4.0", `{"cniVersion":"1.0.0","ips":[{"address":"10.0.0.3/24"}]}`},
		{"0.2.0", `{"cniVersion":"0.4.0","ips":[{"version":"4","address":"10.0.0.3/24"}]}`},
		{"0.1.0", `{"ip4":{"ip":"10.0.0.3/24"}}`},
	} {
		t.Run(c.conf+c.answer, func(t *testing.T) {
			t.Parallel()
			req := call(t, netconf.Add, `{"cniVersion":"`+c.conf+`","name":"net","type":"fake"}`, program(t, "echo '"+c.answer+"'"))
			result, err := quiet().Call(t.Context(), req)
			if err != nil || len(result.IPs) != 1 || result.IPs[0].Address.String() != "10.0.0.3/24" {
				t.Errorf("result %v, error %v", result, err)
			}
		})
	}
}

func TestVerbsThatTheVersionLacksAreNotSent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		command netconf.Command
		version string
		sent    bool
	}{
		{netconf.Check, "0.3.1", false}, {netconf.Check, "0.4.0", true}, {netconf.GC, "1.0.0", false}, {netconf.GC, "1.1.0", true},
		{netconf.Status, "0.4.0", false}, {netconf.Status, "1.1.0", true}, {netconf.Add, "0.1.0", true}, {netconf.Del, "0.1.0", true},
		{netconf.Del, "nonsense", true}, {netconf.Del, "", true},
	} {
		t.Run(fmt.Sprint(c.command, c.version), func(t *testing.T) {
			t.Parallel()
			dir := program(t, `touch "$0.ran"; echo "{}"`)
			in := &plugin{answer: func(context.Context, *netconf.Request) error { return nil }}
			for _, p := range []delegate.Plugin{quiet(), delegate.InProcess{Do: in.do}} {
				req := call(t, c.command, plain, dir)
				req.Network.CNIVersion = c.version // as of a request made by hand: Parse refuses most of these
				if c.command == netconf.Add {
					req.Network.CNIVersion = "0.3.0" // 0.1.0 has no empty result
				}
				if _, err := p.Call(t.Context(), req); err != nil {
					t.Fatal(err)
				}
			}
			_, err := os.Stat(filepath.Join(dir, "fake.ran"))
			if sent := err == nil; sent != c.sent || (len(in.verbs) == 1) != c.sent {
				t.Errorf("the program was called: %v; the function: %v", sent, in.verbs)
			}
		})
	}
}

// The hook of tests is asked before the process starts, and a context that has ended starts none.
func TestFaultHook(t *testing.T) {
	t.Parallel()
	dir := program(t, `touch "$0.ran"; echo "{}"`)
	broken := errors.New("broken")
	var ops []string
	ctx := netconf.WithFault(t.Context(), func(_ context.Context, op string) error {
		ops = append(ops, op)
		return broken
	})
	req := call(t, netconf.Add, plain, dir)
	_, err := quiet().Call(ctx, req)
	if !errors.Is(err, broken) || fmt.Sprint(ops) != "[exec fake ADD]" {
		t.Errorf("error %v, operations %q", err, ops)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = quiet().Call(ctx, req)
	wants(t, err, 11, "canceled")
	if _, err := os.Stat(filepath.Join(dir, "fake.ran")); err == nil {
		t.Error("the program was started")
	}
}

// Calls share nothing: each has its own environment, configuration and result. That the thread that
// started a program is held until its end is what keeps other threads' ends from killing it.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	dir := program(t, `echo "{\"ips\":[{\"address\":\"10.0.0.${CNI_CONTAINERID#c}/24\"}]}"`)
	base := call(t, netconf.Add, plain, dir)
	var all sync.WaitGroup
	for i := range 30 {
		all.Go(func() {
			req := base.As(netconf.Add)
			req.ContainerID = fmt.Sprintf("c%d", i+1)
			result, err := quiet().Call(t.Context(), req)
			if err != nil || result.IPs[0].Address.String() != fmt.Sprintf("10.0.0.%d/24", i+1) {
				t.Errorf("call %d: %v, %v", i, result, err)
			}
		})
	}
	all.Wait()
}
