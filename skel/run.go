package skel

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
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

func (io IO) getenv(key string) string { return lookup(io.Env, key) }

// Run serves one call and returns the exit status: 0, or 1 with an error document on Stdout. It
// touches nothing of the process: no os.Args, environment, file descriptor, signal or exit.
func (p Plugin[C]) Run(ctx context.Context, io IO) int {
	return p.core().run(ctx, io)
}

func (c *core) run(ctx context.Context, call IO) int {
	begun := time.Now()
	ctx, cancel := c.bounded(ctx, netconf.Command(call.getenv("CNI_COMMAND")))
	defer cancel()
	stdout := &output{to: call.Stdout}
	log, end, err := c.parse(ctx, call, begun)
	defer end()
	req := log.req
	switch {
	case err != nil:
		err = netconf.Join(err, c.more(req, err))
	case req.Command == netconf.Version:
		var document bytes.Buffer
		if err = c.versionDocument(req, &document); err == nil {
			err = stdout.write(document.Bytes())
		}
	default:
		err = c.do(log.in(ctx), req, func() error {
			var document bytes.Buffer
			if err := c.encode(req, &document); err != nil {
				return err
			}
			return stdout.write(document.Bytes())
		})
		// A closer of an author's may hang, or panic, when the result is printed already.
		if closeErr := within(leaveAfter, req.Close); closeErr != nil {
			req.Warn("close what the call had opened", "error", closeErr.Error())
		}
	}
	if err != nil {
		stdout.report(req, errorDocument(req, err, log.said))
	}
	log.end(ctx, err)
	if err != nil {
		return 1
	}
	return 0
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
	switch err := within(leaveAfter, func() error { return o.write(document) }); {
	case errors.Is(err, os.ErrDeadlineExceeded):
		req.Warn("nobody reads the error from stdout")
	case err != nil:
		req.Warn("the error could not be reported on stdout", "error", err.Error())
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

// parse reads the call, and begins its log. It does not wait for the end of stdin longer than the call may take.
func (c *core) parse(ctx context.Context, call IO, begun time.Time) (log *callLog, end func(), err error) {
	type parsed struct {
		req *netconf.Request
		err error
	}
	none := &netconf.Request{Command: netconf.Command(call.getenv("CNI_COMMAND")), Result: &types100.Result{}}
	done := make(chan parsed, 1)
	go func() {
		p := parsed{req: none, err: errGoexit}
		defer func() { done <- p }() // also where stdin is a program's, and ends the goroutine
		p.err = caught(func() (err error) {
			p.req, err = netconf.Parse(call.getenv, call.Stdin)
			return err
		})
	}()
	var p parsed
	select {
	case p = <-done:
	case <-ctx.Done():
		p = parsed{none, netconf.Errorf(netconf.CodeTryAgainLater, "stdin has no end: %w", context.Cause(ctx))}
	}
	req := p.req
	req.Environ = call.Env
	log, end = c.openLog(req, call.Stderr, begun)
	if err := req.Warnings(); err != nil {
		req.Warn("goes on: " + err.Error())
	}
	return log, end, p.err
}

// more is what else is wrong with the configuration of an ADD or CHECK that was refused for another
// reason, so that all of it is said at once.
func (c *core) more(req *netconf.Request, known error) error {
	if c.broken != nil || len(req.Config) > netconf.MaxConfig || unread(known) || netconf.Code(known) == netconf.CodeTryAgainLater || req.Command != netconf.Add && req.Command != netconf.Check {
		return nil
	}
	var err error
	panicked := protect(req, "Plugin.Validate", func() error { _, err = c.decode(req); return nil })
	if panicked != nil || err != nil && strings.Contains(known.Error(), err.Error()) { // both find that it is no JSON
		return nil
	}
	return err
}

// unread tells whether stdin could not be read: nothing can be said of what was to come.
func unread(err error) bool {
	all := netconf.Split(err)
	for _, err := range all {
		var e *netconf.Error
		if len(all) > 1 && unread(err) || errors.As(err, &e) && e.Op == "stdin" {
			return true
		}
	}
	return false
}

// versionDocument is the answer to VERSION, in the version that was asked with (SPEC, section 4
// "VERSION").
func (c *core) versionDocument(req *netconf.Request, out io.Writer) error {
	steps, err := c.blank(req)
	if err != nil {
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

// blank is the steps of a call without a configuration.
func (c *core) blank(req *netconf.Request) (steps Steps, err error) {
	if c.broken != nil {
		return nil, c.broken
	}
	err = protect(req, "Plugin.Steps", func() error { steps = c.announced(req); return nil })
	return steps, err
}

// serves is VERSION in this process, where there is no document to print.
func (c *core) serves(req *netconf.Request) error {
	steps, err := c.blank(req)
	if err != nil {
		return err
	}
	return c.checkVersion(req, steps)
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
