package delegate

import (
	"bytes"
	"context"
	"encoding/json"
	"strconv"

	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/cnikit/cnikit/netconf"
)

// Result is what a plugin answered to an ADD.
type Result struct {
	*types100.Result // checked, as netconf.ParseResult does; the caller's own; never nil without an error
	// JSON is the answer as it was printed, in any version of the specification, with the fields that types100
	// does not know. It always has its cniVersion: netconf.Request.SetPrev makes of it what CHECK and DEL get, also
	// from a record and years later.
	JSON json.RawMessage
}

// caller is a plugin that tells its answer as it was printed, and whether it serves a version.
type caller interface {
	Plugin
	result(ctx context.Context, req *netconf.Request) (Result, error)
	serves(ctx context.Context, req *netconf.Request) error // see Network.Validate
}

// newResult reads an answer; assumed is the version of the configuration, for an answer that names none.
func newResult(document json.RawMessage, assumed string) (Result, error) {
	result, err := netconf.ParseResult(document, assumed)
	if err != nil {
		return Result{}, err
	}
	if versionOf(document) == "" {
		document, err = withVersion(document, result, assumed)
	}
	return Result{result, document}, err
}

// withVersion gives a version to a result that names none: the assumed one, or, where that one has no room for
// it, the one that ParseResult has found it to be of.
func withVersion(document json.RawMessage, result *types100.Result, assumed string) (json.RawMessage, error) {
	req := &netconf.Request{Network: netconf.Network{CNIVersion: assumed}}
	if err := req.SetPrev(document); err != nil {
		return nil, err
	}
	if out, err := encode(req); err == nil {
		return out, nil
	}
	if len(result.IPs)+len(result.Interfaces) > 0 {
		assumed = "0.4.0"
	}
	return netconf.Patch(document, "cniVersion", json.RawMessage(strconv.Quote(assumed)))
}

// versionOf is the cniVersion of a result, "" if it has none.
func versionOf(document json.RawMessage) string {
	var v struct {
		CNIVersion string `json:"cniVersion"`
	}
	_ = json.Unmarshal(document, &v) // the document was found good; what is not there is ""
	return v.CNIVersion
}

// in writes a result in a version: as it is where it has that version already, so that nothing of it is lost. No
// result is none.
func (r Result) in(version string) (json.RawMessage, error) {
	if len(r.JSON) == 0 || versionOf(r.JSON) == version {
		return r.JSON, nil
	}
	req := &netconf.Request{Network: netconf.Network{CNIVersion: version}}
	if err := req.SetPrev(r.JSON); err != nil {
		return nil, err
	}
	return encode(req)
}

// encode writes the prevResult that a request stands for: its Prev with its Result appended, in its version, without
// the white space that a person would read it by.
func encode(req *netconf.Request) (json.RawMessage, error) {
	var printed, out bytes.Buffer
	if err := req.EncodeResult(&printed); err != nil {
		return nil, err
	}
	if err := json.Compact(&out, printed.Bytes()); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
