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
	docs, err := documents(o.stdout)
	if o.exit != nil {
		return Result{}, o.failure(docs, err)
	}
	if len(docs) > 0 {
		// A message without a code is an error where a result is due; elsewhere it may be a friendly word.
		said := errorDocument(docs[len(docs)-1])
		if said != nil && (said.Code != 0 || req.Command == netconf.Add) {
			return Result{}, o.bad("an error on stdout all the same: %s (code %d)", said.Error(), said.Code)
		}
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
func (o output) failure(docs []json.RawMessage, err error) error {
	var said *types.Error
	if len(docs) > 0 {
		said = errorDocument(docs[len(docs)-1])
	}
	switch {
	case said == nil && len(o.stdout) == 0:
		return o.bad("no error document on stdout")
	case said == nil:
		return o.bad("no error document on stdout: %s", excerpt(o.stdout))
	case err != nil || len(docs) > 1:
		return o.bad("more than an error document on stdout: %s (code %d)", said.Error(), said.Code)
	case said.Code == 0:
		return o.bad("an error without a code: %s", said.Error())
	}
	return said
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

// documents splits stdout into its JSON documents, at most three; the error is that of the first text
// that is not JSON.
func documents(stdout []byte) ([]json.RawMessage, error) {
	var docs []json.RawMessage
	d := json.NewDecoder(bytes.NewReader(stdout))
	for len(docs) < 3 {
		var doc json.RawMessage
		err := d.Decode(&doc)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return docs, err
		}
		docs = append(docs, doc)
	}
	return docs, nil
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

// excerpt quotes the beginning of a text.
func excerpt(text []byte) string {
	const enough = 200
	if len(text) > enough {
		return fmt.Sprintf("%q...", text[:enough])
	}
	return fmt.Sprintf("%q", text)
}
