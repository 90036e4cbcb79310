package netconf

import (
	"bytes"
	"encoding/json"
)

// SetPrev makes a result, of any version, the request's prevResult: Prev is a private copy of it, and the
// fields of it that types100 does not know are kept for EncodeResult. Config stays as it is. An empty result is
// none. A result without a version is taken to be of the configuration's. Errors are those of ParseResult, and
// leave the request as it was.
func (r *Request) SetPrev(result json.RawMessage) error {
	if len(result) == 0 {
		r.Prev, r.prevRaw = nil, nil
		return nil
	}
	prev, err := ParseResult(result, r.Network.CNIVersion)
	if err != nil {
		return err
	}
	r.Prev, r.prevRaw = prev, bytes.Clone(result)
	return nil
}
