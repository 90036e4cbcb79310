package delegate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/cnikit/cnikit/netconf"
)

// answer reads what the program said. From an ADD that is exactly one result; the other verbs have
// nothing to say, and what they print all the same is passed over, unless it is an error.
func (o output) answer(req *netconf.Request) (Result, error) {
	if o.skipped {
		return Result{}, nil
	}
	if o.tooMuch {
		return Result{}, netconf.Errorf(netconf.CodeBadDelegate, "%w", errTooMuch) // how it ended is our doing
	}
	docs, said, err := documents(o.stdout)
	if o.exit != nil {
		return Result{}, o.failure(said, docs, err)
	}
	// A message without a code is an error where a result is due; elsewhere it may be a friendly word.
	if said != nil && (said.Code != 0 || req.Command == netconf.Add) {
		if len(docs) > 1 {
			return Result{}, o.bad("more than one JSON document on stdout, an error among them: %s", described(said))
		}
		return Result{}, o.bad("an error on stdout all the same: %s", described(said))
	}
	if req.Command != netconf.Add {
		return Result{}, nil
	}
	switch {
	case err != nil:
		return Result{}, o.bad("stdout is not JSON (%w): %s", err, excerpt(o.stdout))
	case len(docs) == 0:
		return Result{}, o.bad("stdout is empty: expected a result")
	case len(docs) > 1:
		return Result{}, o.bad("more than one JSON document on stdout: %s", excerpt(o.stdout))
	}
	result, err := newResult(docs[0], req.Network.CNIVersion)
	if err != nil {
		// Not its code: 6 or 1 would be said of the caller's own configuration.
		return Result{}, o.bad("not a valid result: %s", err.Error())
	}
	return result, nil
}

// failure is the error of a program that did not end with status 0: its own if it printed exactly one.
func (o output) failure(said *types.Error, docs []json.RawMessage, err error) error {
	switch {
	case said == nil && len(o.stdout) == 0:
		return o.bad("no error document on stdout")
	case said == nil:
		return o.bad("no error document on stdout: %s", excerpt(o.stdout))
	case err != nil || len(docs) > 1:
		return o.bad("more than an error document on stdout: %s", described(said))
	case said.Code == 0:
		return o.bad("an error without a code: %s", said.Error())
	case said.Msg == "": // the code is the plugin's all the same
		return netconf.Errorf(said.Code, "%w: %s", o.exit, described(said))
	}
	return said
}

// described is what an error document says, in one line.
func described(said *types.Error) string {
	if said.Msg != "" {
		return fmt.Sprintf("%s (code %d)", said.Error(), said.Code)
	}
	text := fmt.Sprintf("code %d, without a message", said.Code)
	if said.Details != "" {
		text += "; " + said.Details
	}
	return text
}

// lastError is the last error document in a text that is not JSON as a whole: a plugin that logs on stdout says what is wrong
// between its lines, or behind them. It begins in a line that is not indented; upstream's plugins print it in several. The
// last 64 KiB are looked at, and in them 64 such lines, so that garbage does not take long.
func lastError(stdout []byte) *types.Error {
	const enough, tries = 64 << 10, 64
	text := stdout[max(0, len(stdout)-enough):]
	end := len(text)
	for tried := 0; end > 0 && tried < tries; {
		begin := bytes.LastIndexByte(text[:end-1], '\n') + 1
		brace := bytes.IndexByte(text[begin:end], '{')
		if brace >= 0 && text[begin] != ' ' && text[begin] != '\t' {
			tried++
			var doc json.RawMessage
			if json.NewDecoder(bytes.NewReader(text[begin+brace:])).Decode(&doc) == nil {
				if said := errorDocument(doc); said != nil {
					return said
				}
			}
		}
		end = begin
	}
	return nil
}

// bad makes the error for an answer that is none, with code 104. It names how the program ended and
// wraps an *exec.ExitError if there is one.
func (o output) bad(format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	if o.exit == nil {
		return netconf.Errorf(netconf.CodeBadDelegate, "%s: %w", o.how(), err)
	}
	return netconf.Errorf(netconf.CodeBadDelegate, "%w: %w", o.exit, err)
}

// documents splits stdout into its JSON documents, of which it returns the first three, and the last that is an error
// document, if any; the error is that of the first text that is not JSON.
func documents(stdout []byte) (docs []json.RawMessage, said *types.Error, bad error) {
	d := json.NewDecoder(bytes.NewReader(stdout))
	for {
		var doc json.RawMessage
		err := d.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return docs, said, nil
		}
		if err != nil {
			if last := lastError(stdout); last != nil {
				said = last
			}
			return docs, said, err
		}
		if e := errorDocument(doc); e != nil {
			said = e
		}
		if len(docs) < 3 {
			docs = append(docs, doc)
		}
	}
}

// errorDocument reads an error document (SPEC, section 5 "Error"); nil if doc is none. Details are a
// text by the specification, but not in all plugins.
func errorDocument(doc json.RawMessage) *types.Error {
	var e struct {
		Code    uint            `json:"code"`
		Msg     string          `json:"msg"`
		Details json.RawMessage `json:"details"`
	}
	if json.Unmarshal(doc, &e) != nil || e.Code == 0 && e.Msg == "" {
		return nil
	}
	var details string
	if json.Unmarshal(e.Details, &details) != nil {
		details = string(e.Details)
	}
	return types.NewError(e.Code, e.Msg, details)
}

// excerpt quotes the beginning of a text, and its end, where what went wrong stands behind the lines of a log.
func excerpt(text []byte) string {
	const enough = 200
	if text = bytes.TrimSpace(text); len(text) > 2*enough {
		return fmt.Sprintf("%q...%q", text[:enough], text[len(text)-enough:])
	}
	return fmt.Sprintf("%q", text)
}
