package skel_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/slogtest"
	"time"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// line is a line of a log, by key.
type line map[string]string

// lines reads a log, and fails the test where a line is not key=value throughout, or lacks what each has.
func lines(t *testing.T, log string) []line {
	t.Helper()
	var out []line
	for text := range strings.Lines(log) {
		l := line{}
		for rest := strings.TrimSuffix(text, "\n"); rest != ""; rest = strings.TrimPrefix(rest, " ") {
			key, value, ok := strings.Cut(rest, "=")
			if !ok {
				t.Fatalf("no key=value: %q in %q", rest, text)
			}
			end := strings.IndexByte(value, ' ')
			if end < 0 {
				end = len(value)
			}
			if quoted, err := strconv.QuotedPrefix(value); err == nil {
				end = len(quoted)
				if l[key], err = strconv.Unquote(quoted); err != nil {
					t.Fatal(err)
				}
			} else {
				l[key] = value[:end]
			}
			rest = value[end:]
		}
		for _, key := range []string{"time", "level", "msg", "plugin", "verb", "network", "container", "ifname", "step", "duration"} {
			if _, ok := l[key]; !ok {
				t.Errorf("a line without %s: %q", key, text)
			}
		}
		if _, err := time.Parse(time.RFC3339, l["time"]); err != nil {
			t.Error(err)
		}
		out = append(out, l)
	}
	return out
}

// messages are what lines say: level, message, and the step.
func messages(ls []line) []string {
	out := []string{}
	for _, l := range ls {
		out = append(out, strings.TrimSpace(l["level"]+" "+l["msg"]+" "+l["step"]))
	}
	return out
}

func logOf(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return string(data)
}

// withLog is a call with the key log.
func withLog(command netconf.Command, log string) skeltest.Call {
	c := call(command)
	c.Config = `{"cniVersion":"1.1.0","name":"net","type":"test","log":` + log + `}`
	return c
}

func TestLogLevels(t *testing.T) {
	t.Parallel()
	// What a call says: a warning of its step, and what the step logs itself.
	all := []string{"DEBUG ADD begins a", "WARN strange a", "INFO noted a", "DEBUG ADD ended a", "INFO done"}
	failed := []string{"DEBUG ADD begins a", "WARN strange a", "INFO noted a", "DEBUG ADD ended a", "DEBUG DEL begins a", "DEBUG DEL ended a", "ERROR failed"}
	only := func(all []string, levels ...string) []string {
		return slices.DeleteFunc(slices.Clone(all), func(m string) bool { return !slices.Contains(levels, strings.Fields(m)[0]) })
	}
	for _, test := range []struct {
		log            string // @ is the file
		stderr, infile []string
	}{
		{`{}`, []string{"WARN", "ERROR"}, nil},
		{`null`, []string{"WARN", "ERROR"}, nil},
		{`{"level":"off"}`, nil, nil},
		{`{"level":"error"}`, []string{"ERROR"}, nil},
		{`{"level":"warn"}`, []string{"WARN", "ERROR"}, nil},
		{`{"level":"info"}`, []string{"INFO", "WARN", "ERROR"}, nil},
		{`{"level":"debug"}`, []string{"DEBUG", "INFO", "WARN", "ERROR"}, nil},
		{`{"file":""}`, []string{"WARN", "ERROR"}, nil},
		{`{"file":"@"}`, []string{"WARN", "ERROR"}, []string{"INFO", "WARN", "ERROR"}},
		{`{"file":"@","level":"debug"}`, []string{"WARN", "ERROR"}, []string{"DEBUG", "INFO", "WARN", "ERROR"}},
		{`{"file":"@","level":"error"}`, []string{"ERROR"}, []string{"ERROR"}},
		{`{"file":"@","level":"off"}`, nil, nil},
	} {
		for _, broken := range []error{nil, errors.New("broken")} {
			t.Run(fmt.Sprintf("%s, %v", test.log, broken), func(t *testing.T) {
				t.Parallel()
				file := filepath.Join(t.TempDir(), "log")
				p := plugin(t, &step{name: "a", j: &journal{}, add: func(ctx context.Context, req *netconf.Request) error {
					req.Warn("strange")
					skel.Logger(ctx).Info("noted")
					return errors.Join(broken, iface(ctx, req))
				}})
				a := withLog(netconf.Add, strings.ReplaceAll(test.log, "@", file)).Run(t.Context(), t, p)
				said := all
				if broken != nil {
					said = failed
				}
				if got, want := messages(lines(t, a.Stderr)), only(said, test.stderr...); !slices.Equal(got, want) {
					t.Errorf("stderr has %q, expected %q", got, want)
				}
				if got, want := messages(lines(t, logOf(t, file))), only(said, test.infile...); !slices.Equal(got, want) {
					t.Errorf("the file has %q, expected %q", got, want)
				}
			})
		}
	}
}

const (
	traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	tracestate  = "vendor=opaque,other=1"
	baggage     = "user=%20x,k=v"
)

func TestLogLines(t *testing.T) {
	t.Parallel()
	p := plugin(t, &step{name: "my step", j: &journal{}, add: func(ctx context.Context, req *netconf.Request) error {
		req.Warn("two\nlines", "key", "v\n\"alue\" = ", "n", 7)
		return netconf.Errorf(netconf.CodeExhausted, "no address\nlevel=INFO msg=forged")
	}})
	c := withLog(netconf.Add, `{"level":"debug"}`)
	c.Env = append(c.Env, "TRACEPARENT="+traceparent, "TRACESTATE="+tracestate, "BAGGAGE="+baggage)
	ls := lines(t, c.Run(t.Context(), t, p).Fails(t, netconf.CodeExhausted).Stderr)
	if len(ls) != 6 {
		t.Fatalf("%d lines: %v", len(ls), ls)
	}
	for _, l := range ls {
		if l["plugin"] != "test" || l["verb"] != "ADD" || l["network"] != "net" || l["container"] != "c1" || l["ifname"] != "eth0" || l["traceparent"] != traceparent {
			t.Errorf("line %v", l)
		}
	}
	if l := ls[1]; l["level"] != "WARN" || l["msg"] != "two\nlines" || l["key"] != "v\n\"alue\" = " || l["n"] != "7" || l["step"] != "my step" {
		t.Errorf("warning %v", l)
	}
	before := time.Duration(0)
	for i, l := range ls { // the call's so far, and what a step took
		d, err := time.ParseDuration(l["duration"])
		if err != nil || d < before || d == 0 {
			t.Errorf("duration after %v: %v", before, l)
		}
		before = d
		if took, err := time.ParseDuration(l["took"]); (i == 2 || i == 4) != (err == nil) || took > d {
			t.Errorf("took %v", l)
		}
	}
	if l := ls[2]; !strings.Contains(l["error"], "no address") {
		t.Errorf("end of a step %v", l)
	}
	if l := ls[5]; l["level"] != "ERROR" || l["msg"] != "failed" || l["code"] != "101" || !strings.HasSuffix(l["error"], "no address\nlevel=INFO msg=forged") ||
		l["tracestate"] != tracestate || l["baggage"] != baggage || l["step"] != "" {
		t.Errorf("end %v", l)
	}
	l := lines(t, withLog(netconf.Del, `{"level":"info"}`).Run(t.Context(), t, p).OK(t).Stderr)
	if len(l) != 1 || l[0]["msg"] != "done" || l[0]["code"] != "0" || l[0]["verb"] != "DEL" || l[0]["duration"] == "" {
		t.Errorf("a success: %v", l)
	}
	c = withLog(netconf.Status, `{"level":"info"}`)
	c.ContainerID, c.IfName = "", ""
	if l := lines(t, c.Run(t.Context(), t, plugin(t)).OK(t).Stderr); len(l) != 1 || l[0]["container"] != "" {
		t.Errorf("STATUS: %v", l)
	}
}

// Who wants to hear of errors alone hears where a panic came from: in one line, as any other.
func TestStackOfAPanicIsAnError(t *testing.T) {
	t.Parallel()
	p := plugin(t, &step{name: "a", j: &journal{}, add: func(context.Context, *netconf.Request) error { panic("F2") }})
	ls := lines(t, withLog(netconf.Add, `{"level":"error"}`).Run(t.Context(), t, p).Fails(t, netconf.CodeInternal).Stderr)
	if len(ls) != 2 || ls[0]["msg"] != "panic" || ls[0]["panic"] != "F2" || ls[0]["step"] != "a" || !strings.Contains(ls[0]["stack"], "log_test.go") {
		t.Errorf("%v", ls)
	}
}

// A stream that hangs is waited for once, however much there is to say.
func TestLogThatHangsIsGivenUp(t *testing.T) {
	t.Parallel()
	var begun atomic.Int32
	never := make(chan struct{})
	defer close(never)
	hangs := writer(func([]byte) (int, error) { begun.Add(1); <-never; return 0, errors.New("closed") })
	p := plugin(t, &step{name: "a", j: &journal{}, del: func(_ context.Context, req *netconf.Request) error {
		for range 10 {
			req.Warn("strange")
		}
		_, err := io.WriteString(req.Stderr, "of a delegate")
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("a delegate's stderr: %v", err)
		}
		return nil
	}})
	c := call(netconf.Del)
	if exit := p.Run(t.Context(), skel.IO{Env: []string{"CNI_COMMAND=DEL", "CNI_CONTAINERID=c1", "CNI_IFNAME=eth0"},
		Stdin: strings.NewReader(c.Config), Stdout: io.Discard, Stderr: hangs}); exit != 0 || begun.Load() != 1 {
		t.Errorf("exit status %d after %d writes", exit, begun.Load())
	}
}

// What is in the environment is the runtime's: only what has the form of a trace is put into a log.
func TestTraceThatIsNoneIsNotLogged(t *testing.T) {
	t.Parallel()
	zeros := strings.Repeat("0", 32)
	for value, want := range map[string]bool{
		traceparent: true, "": false, "x": false, "cc" + traceparent[2:] + "-more": true, "cc" + traceparent[2:]: true,
		"ff" + traceparent[2:]: false, traceparent + "-more": false, traceparent + "\n": false, strings.ToUpper(traceparent): false,
		"00-" + zeros + "-00f067aa0ba902b7-01": false, traceparent[:36] + zeros[:16] + "-01": false, strings.Replace(traceparent, "-", "0", 1): false,
		"cc" + traceparent[2:] + "more": false, "cc" + traceparent[2:] + "-\n": false, "cc" + traceparent[2:] + "-" + strings.Repeat("x", 300): false,
	} {
		c := withLog(netconf.Del, `{"level":"info"}`)
		c.Env = append(c.Env, "TRACEPARENT="+value)
		ls := lines(t, c.Run(t.Context(), t, plugin(t)).OK(t).Stderr)
		if got, ok := ls[0]["traceparent"]; ok != want || ok && got != value {
			t.Errorf("TRACEPARENT=%q: in the log %v, as %q", value, ok, got)
		}
	}
	for value, want := range map[string]bool{"k=v": true, "": false, "k=\n": false, "k=\xff": false, "k=ä": false, strings.Repeat("x", 9000): false} {
		c := withLog(netconf.Del, `{"level":"info"}`)
		c.Env = append(c.Env, "TRACESTATE="+value, "BAGGAGE="+value)
		ls := lines(t, c.Run(t.Context(), t, plugin(t)).OK(t).Stderr)
		for _, key := range []string{"tracestate", "baggage"} {
			if _, ok := ls[0][key]; ok != want {
				t.Errorf("%s %q: in the log %v", key, value, ok)
			}
		}
	}
}

// Calls at once, each with the file opened for itself, as processes have it.
func TestLinesOfCallsAtOnceDoNotMix(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "log")
	long := strings.Repeat("x", 20_000)
	p := plugin(t, &step{name: "a", j: &journal{}, del: func(_ context.Context, req *netconf.Request) error {
		for range 5 {
			req.Warn(long)
		}
		return nil
	}})
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			c := withLog(netconf.Del, `{"file":"`+file+`"}`)
			c.ContainerID = fmt.Sprint("c", i)
			c.Run(t.Context(), t, p).OK(t)
		})
	}
	wg.Wait()
	seen := map[string]int{}
	for _, l := range lines(t, logOf(t, file)) {
		if l["level"] == "WARN" && l["msg"] != long {
			t.Errorf("a line of %d bytes", len(l["msg"]))
		}
		seen[l["container"]]++
	}
	for i := range 40 {
		if n := seen[fmt.Sprint("c", i)]; n != 6 {
			t.Errorf("c%d has %d lines, expected 6", i, n)
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// A call that is made inside another logs to the same places, under its own name; a daemon's goes to its logger.
func TestLogOfNestedCallsAndDaemons(t *testing.T) {
	t.Parallel()
	inner := plugin(t, &step{name: "inside", j: &journal{}, add: func(ctx context.Context, req *netconf.Request) error {
		skel.Logger(ctx).With("k", 1).WithGroup("g").Warn("from below", "of", "inner")
		return iface(ctx, req)
	}})
	inner.Name = "inner"
	outer := plugin(t, &step{name: "outside", j: &journal{}, add: func(ctx context.Context, req *netconf.Request) error {
		err := inner.Do(ctx, req)
		skel.Logger(ctx).Warn("from above")
		req.Warn("by Warn")
		return err
	}})
	file := filepath.Join(t.TempDir(), "log")
	withLog(netconf.Add, `{"file":"`+file+`"}`).Run(t.Context(), t, outer).OK(t)
	ls := lines(t, logOf(t, file))
	want := []string{"WARN from below inside", "INFO done", "WARN from above outside", "WARN by Warn outside", "INFO done"}
	if got := messages(ls); !slices.Equal(got, want) {
		t.Fatalf("%q, expected %q", got, want)
	}
	for i, plugin := range []string{"inner", "inner", "test", "test", "test"} {
		if ls[i]["plugin"] != plugin {
			t.Errorf("line %v, expected of %s", ls[i], plugin)
		}
	}
	if ls[0]["k"] != "1" || ls[0]["g.of"] != "inner" {
		t.Errorf("line %v", ls[0])
	}

	var out bytes.Buffer
	ctx := skel.WithLogger(t.Context(), slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug})).With("daemon", "mine"))
	req := &netconf.Request{Command: netconf.Add, ContainerID: "c1", IfName: "eth0", Netns: "/proc/self/ns/net", Environ: []string{"CNI_NETNS_OVERRIDE=1"},
		Network: netconf.Network{Name: "net", CNIVersion: "1.1.0"}, Config: []byte(`{"unknown":1}`)}
	if err := outer.Do(ctx, req); err != nil {
		t.Fatal(err)
	}
	ls = lines(t, out.String())
	for _, want := range []string{"WARN configuration: line 1, column 2: unknown key \"unknown\" is ignored", "DEBUG ADD begins outside", "WARN from below inside", "WARN by Warn outside", "INFO done"} {
		if !slices.Contains(messages(ls), want) {
			t.Errorf("%q is not in %q", want, messages(ls))
		}
	}
	for _, l := range ls {
		if l["daemon"] != "mine" {
			t.Errorf("line %v", l)
		}
	}
	skel.Logger(skel.WithLogger(t.Context(), slog.New(slog.NewTextHandler(&out, nil)))).Info("alone")
	skel.Logger(t.Context()).Info("dropped")
	if text := out.String(); !strings.Contains(text, "alone") || strings.Contains(text, "dropped") {
		t.Errorf("%s", text)
	}
}

// The handler that stands behind Logger is as log/slog wants one.
func TestLoggerIsAHandler(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "log")
	p := plugin(t, &step{name: "a", j: &journal{}, add: func(ctx context.Context, req *netconf.Request) error {
		h := skel.Logger(ctx).Handler()
		return errors.Join(iface(ctx, req), slogtest.TestHandler(h, func() []map[string]any {
			return textLines(logOf(t, file))
		}))
	}})
	withLog(netconf.Add, `{"file":"`+file+`"}`).Run(t.Context(), t, p).OK(t)
}

// textLines reads lines of a text handler with their groups, g.k=v, as slogtest wants them.
func textLines(log string) (out []map[string]any) {
	for text := range strings.Lines(log) {
		top := map[string]any{}
		for _, field := range strings.Fields(text) {
			key, value, _ := strings.Cut(field, "=")
			m := top
			parts := strings.Split(key, ".")
			for _, group := range parts[:len(parts)-1] {
				if m[group] == nil {
					m[group] = map[string]any{}
				}
				m = m[group].(map[string]any)
			}
			m[parts[len(parts)-1]] = value
		}
		out = append(out, top)
	}
	return out
}
