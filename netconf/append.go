package netconf

import (
	"bytes"
	"encoding/json"
	"slices"

	types100 "github.com/containernetworking/cni/pkg/types/100"
)

// AppendResult adds a delegate's answer, of any version, to Result: the indexes of its addresses' interfaces are moved
// accordingly, DNS is the answer's if it has any. Its fields that types100 does not know are kept for EncodeResult. An
// answer without a version is taken to be of the configuration's. Errors are those of ParseResult, and leave the request
// as it was.
func (r *Request) AppendResult(answer json.RawMessage) error {
	result, err := ParseResult(answer, r.Network.CNIVersion)
	if err != nil {
		return err
	}
	whole := r.result()
	*whole = *merge(whole, result)
	r.resultRaw = append(slices.Clip(r.resultRaw), bytes.Clone(answer))
	return nil
}

// SetResult is AppendResult to an empty Result: a delegate that was given what was made so far answers with all of it. An
// empty answer is none.
func (r *Request) SetResult(answer json.RawMessage) error {
	before, raw := *r.result(), r.resultRaw
	*r.Result, r.resultRaw = types100.Result{}, nil
	if len(answer) == 0 {
		return nil
	}
	err := r.AppendResult(answer)
	if err != nil {
		*r.Result, r.resultRaw = before, raw
	}
	return err
}

// extrasOfAll collects the unknown members of several results, of which the first comes first. What belongs to the
// whole, or its dns, is put together; of a key that several have, the last counts.
func extrasOfAll(raws []json.RawMessage) extras {
	all := extras{}
	for _, raw := range raws {
		for key, objects := range extrasOf(raw) {
			if key != resultKey && key != dnsKey || len(all[key]) == 0 {
				all[key] = append(all[key], objects...)
				continue
			}
			for _, more := range objects[0] {
				one := all[key][0]
				one = slices.DeleteFunc(one, func(e extra) bool { return e.key == more.key })
				all[key][0] = append(one, more)
			}
		}
	}
	return all
}
