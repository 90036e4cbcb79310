package skel

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/cnikit/cnikit/netconf"
)

// IO is what a call of a plugin is made of, as values, so that tests need no process and run in parallel.
type IO struct {
	Env            []string // "K=V"; delegates inherit it
	Stdin          io.Reader
	Stdout, Stderr io.Writer // the one JSON document or none; the log
}

func (io IO) getenv(key string) string {
	for _, kv := range slices.Backward(io.Env) { // of two the last counts, as for exec
		if v, ok := strings.CutPrefix(kv, key+"="); ok {
			return v
		}
	}
	return ""
}

// Run serves one call and returns the exit status: 0, or 1 with an error document on Stdout. It
// touches nothing of the process: no os.Args, environment, file descriptor, signal or exit.
func (p Plugin[C]) Run(ctx context.Context, io IO) int {
	return p.core().run(ctx, io)
}

func (c *core) run(ctx context.Context, call IO) int {
	ctx, cancel := c.bounded(ctx, netconf.Command(call.getenv("CNI_COMMAND")))
	defer cancel()
	said, stdout := &warnings{}, &output{to: call.Stdout}
	req, err := c.parse(ctx, call, said)
	switch {
	case err != nil:
		err = netconf.Join(err, c.more(req, err))
	case req.Command == netconf.Version:
		var document bytes.Buffer
		if err = c.versionDocument(req, &document); err == nil {
			err = stdout.write(document.Bytes())
		}
	default:
		err = c.do(ctx, req, func() error {
			var document bytes.Buffer
			if err := c.encode(req, &document); err != nil {
				return err
			}
			return stdout.write(document.Bytes())
		})
		if closeErr := req.Close(); closeErr != nil {
			req.Warn("close what the call had opened", "error", closeErr.Error())
		}
	}
	if err == nil {
		return 0
	}
	stdout.report(req, errorDocument(req, err, said))
	return 1
}

// output is stdout, which gets one document.
type output struct {
	to    io.Writer
	begun atomic.Bool // something may have been written
}

// write puts the document on stdout, in one write. A short write without an error is an error too.
func (o *output) write(document []byte) error {
	o.begun.Store(true)
	n, err := o.to.Write(document)
	if n == 0 && err != nil {
		o.begun.Store(false)
	}
	if err == nil && n < len(document) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return netconf.Errorf(netconf.CodeIOFailure, "write to stdout: %w", err)
	}
	return nil
}

// report writes an error document, unless half of a result may be there already: one document or none.
// It does not wait long for a reader.
func (o *output) report(req *netconf.Request, document []byte) {
	if o.begun.Load() {
		req.Warn("the error is not reported on stdout, where a part of the result may be", "error", string(document))
		return
	}
	done := make(chan error, 1)
	go func() { done <- o.write(document) }()
	select {
	case err := <-done:
		if err != nil {
			req.Warn("the error could not be reported on stdout", "error", err.Error())
		}
	case <-time.After(leaveAfter):
		req.Warn("nobody reads the error from stdout")
	}
}

// encode prints the result of an ADD. An IPAM plugin answers with its own addresses alone: a prevResult
// that stands in the configuration of its caller, which a delegate gets whole, is not for it to hand on.
func (c *core) encode(req *netconf.Request, out io.Writer) error {
	if c.kind == IPAM {
		return netconf.EncodeResult(out, nil, req.Result, req.Network.CNIVersion)
	}
	return req.EncodeResult(out)
}

// parse reads the call. It does not wait for the end of stdin longer than the call may take.
func (c *core) parse(ctx context.Context, call IO, said *warnings) (*netconf.Request, error) {
	type parsed struct {
		req *netconf.Request
		err error
	}
	done := make(chan parsed, 1)
	go func() {
		req, err := netconf.Parse(call.getenv, call.Stdin)
		done <- parsed{req, err}
	}()
	var p parsed
	select {
	case p = <-done:
	case <-ctx.Done():
		p.req = &netconf.Request{Command: netconf.Command(call.getenv("CNI_COMMAND")), Result: &types100.Result{}}
		p.err = netconf.Errorf(netconf.CodeTryAgainLater, "stdin has no end: %w", context.Cause(ctx))
	}
	log := &log{to: call.Stderr}
	p.req.Environ, p.req.Stderr = call.Env, log
	p.req.Warn = c.warner(p.req, log, said)
	if err := p.req.Warnings(); err != nil {
		p.req.Warn("goes on: " + err.Error())
	}
	return p.req, p.err
}

// more is what else is wrong with the configuration of an ADD or CHECK that was refused for another
// reason, so that all of it is said at once.
func (c *core) more(req *netconf.Request, known error) error {
	if c.broken != nil || netconf.Code(known) == netconf.CodeTryAgainLater || req.Command != netconf.Add && req.Command != netconf.Check {
		return nil
	}
	var err error
	panicked := protect(req, "Plugin.Validate", func() error { _, err = c.decode(req); return nil })
	if panicked != nil || err != nil && strings.Contains(known.Error(), err.Error()) { // both find that it is no JSON
		return nil
	}
	return err
}

// warnings are those of a call, for the details of its error: a mistyped key may be why it failed, and a
// runtime shows the error and not stderr.
type warnings struct {
	mu   sync.Mutex
	said []string
}

// maxWarnings is how many are repeated in an error; stderr has them all.
const maxWarnings = 5

func (w *warnings) add(msg string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.said) < maxWarnings {
		w.said = append(w.said, "warning: "+msg)
	}
}

func (w *warnings) list() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.said)
}

// log is stderr, which warnings and delegates write to, perhaps at the same time. One that takes nothing
// for a second, as a full pipe that nobody reads, gets no more: a call does not hang for its log.
type log struct {
	mu   sync.Mutex
	to   io.Writer
	dead bool
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		return 0, os.ErrDeadlineExceeded
	}
	type outcome struct {
		n   int
		err error
	}
	done, text := make(chan outcome, 1), slices.Clone(p) // the caller has its bytes back if this is left behind
	go func() {
		n, err := l.to.Write(text)
		done <- outcome{n, err}
	}()
	select {
	case o := <-done:
		return o.n, o.err
	case <-time.After(leaveAfter):
		l.dead = true
		return 0, os.ErrDeadlineExceeded
	}
}

// warner writes warnings to the log: one line each, key=value behind the message, a stack below it. A
// log that cannot be written is no reason for a call to fail.
func (c *core) warner(req *netconf.Request, log io.Writer, said *warnings) func(string, ...any) {
	return func(msg string, args ...any) {
		said.add(msg)
		line := fmt.Sprintf("%s: %s %s/%s/%s: warning: %s", c.name, req.Command, req.Network.Name, req.ContainerID, req.IfName, msg)
		stack := ""
		for i := 0; i+1 < len(args); i += 2 {
			if args[i] == "stack" {
				stack = fmt.Sprintf("\n%v", args[i+1])
				continue
			}
			line += fmt.Sprintf(" %v=%q", args[i], fmt.Sprint(args[i+1]))
		}
		_, _ = io.WriteString(log, line+stack+"\n") // see above
	}
}

// versionDocument is the answer to VERSION, in the version that was asked with (SPEC, section 4
// "VERSION").
func (c *core) versionDocument(req *netconf.Request, out io.Writer) error {
	var steps Steps
	if c.broken != nil {
		return c.broken
	}
	if err := protect(req, "Plugin.Steps", func() error { steps = c.announced(req); return nil }); err != nil {
		return err
	}
	versions, asked := c.supported(steps), req.Network.CNIVersion
	if asked == "" && len(versions) > 0 { // an empty stdin, as before 1.0.0
		asked = versions[len(versions)-1]
	}
	return json.NewEncoder(out).Encode(struct {
		CNIVersion        string   `json:"cniVersion"`
		SupportedVersions []string `json:"supportedVersions"`
	}{asked, versions})
}

// documentVersion is the version of the caller's configuration, or the newest where there is none that
// can be read: no JSON, or a list on its own.
func documentVersion(req *netconf.Request) string {
	object := bytes.HasPrefix(bytes.TrimSpace(req.Config), []byte("{"))
	if req.Network.CNIVersion == "" || !object || !json.Valid(req.Config) {
		return types100.ImplementedSpecVersion
	}
	return req.Network.CNIVersion
}

// errorDocument is the answer to a call that failed (SPEC, section 5 "Error"): the code is that of the
// first error in the chain that has one, the text that of the outermost, so that no word is lost. Details
// are that error's own, then the call's warnings.
func errorDocument(req *netconf.Request, err error, said *warnings) []byte {
	details := said.list()
	var coded *types.Error
	if errors.As(err, &coded) && coded.Details != "" {
		details = append([]string{coded.Details}, details...)
	}
	out := &bytes.Buffer{}
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "    ")
	document := struct {
		CNIVersion string `json:"cniVersion"`
		Code       uint   `json:"code"`
		Msg        string `json:"msg"`
		Details    string `json:"details,omitempty"`
	}{documentVersion(req), netconf.Code(err), err.Error(), strings.Join(details, "; ")}
	if err := encoder.Encode(document); err != nil {
		panic(err) // strings and a number always encode
	}
	return out.Bytes()
}
