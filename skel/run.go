package skel

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

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
	req, err := c.parse(ctx, call)
	out := &bytes.Buffer{}
	switch {
	case err != nil:
	case req.Command == netconf.Version:
		err = c.versionDocument(req, out)
		if err == nil {
			err = write(call.Stdout, out)
		}
	default:
		err = c.do(ctx, req, func() error {
			if err := c.encode(req, out); err != nil {
				return err
			}
			return write(call.Stdout, out)
		})
		if closeErr := req.Close(); closeErr != nil {
			req.Warn("close what the call had opened", "error", closeErr.Error())
		}
	}
	if err == nil {
		return 0
	}
	if err := write(call.Stdout, errorDocument(req, err)); err != nil {
		req.Warn("the error could not be reported on stdout", "error", err.Error())
	}
	return 1
}

// encode prints the result of an ADD. An IPAM plugin answers with its own addresses alone: a prevResult
// that stands in the configuration of its caller, which a delegate gets whole, is not for it to hand on.
func (c *core) encode(req *netconf.Request, out io.Writer) error {
	if c.kind == IPAM {
		return netconf.EncodeResult(out, nil, req.Result, req.Network.CNIVersion)
	}
	return req.EncodeResult(out)
}

// parse reads the call. It waits for the end of stdin no longer than the verb may take.
func (c *core) parse(ctx context.Context, call IO) (*netconf.Request, error) {
	limit := c.limit(netconf.Command(call.getenv("CNI_COMMAND")))
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("stdin had no end within %v: %w", limit, context.DeadlineExceeded))
	defer cancel()
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
		p.err = netconf.Errorf(netconf.CodeTryAgainLater, "read the configuration: %w", context.Cause(ctx))
	}
	p.req.Environ = call.Env
	p.req.Warn = c.warner(p.req, call.Stderr)
	if err := p.req.Warnings(); err != nil {
		p.req.Warn("goes on: " + err.Error())
	}
	return p.req, p.err
}

// warner writes warnings to the log: one line each, key=value behind the message, a stack below it. A
// log that cannot be written is no reason for a call to fail.
func (c *core) warner(req *netconf.Request, log io.Writer) func(string, ...any) {
	return func(msg string, args ...any) {
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

// write puts a document on stdout in one write. A short write without an error is an error too.
func write(stdout io.Writer, document *bytes.Buffer) error {
	n, err := stdout.Write(document.Bytes())
	if err == nil && n < document.Len() {
		err = io.ErrShortWrite
	}
	if err != nil {
		return netconf.Errorf(netconf.CodeIOFailure, "write to stdout: %w", err)
	}
	return nil
}

// versionDocument is the answer to VERSION, in the version that was asked with (SPEC, section 4
// "VERSION").
func (c *core) versionDocument(req *netconf.Request, out io.Writer) error {
	var steps Steps
	if err := protect(req, c.name, func() error { steps = c.announced(req); return nil }); err != nil {
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

// documentVersion is the version of the caller's configuration, or the newest where there is none.
func documentVersion(req *netconf.Request) string {
	if req.Network.CNIVersion == "" {
		return types100.ImplementedSpecVersion
	}
	return req.Network.CNIVersion
}

// errorDocument is the answer to a call that failed (SPEC, section 5 "Error"): the code is that of the
// first error in the chain that has one, the text that of the outermost, so that no word is lost.
func errorDocument(req *netconf.Request, err error) *bytes.Buffer {
	details := ""
	var coded *types.Error
	if errors.As(err, &coded) {
		details = coded.Details
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
	}{documentVersion(req), netconf.Code(err), err.Error(), details}
	if err := encoder.Encode(document); err != nil {
		panic(err) // strings and a number always encode
	}
	return out
}
