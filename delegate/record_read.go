package delegate

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/cnikit/cnikit/netconf"
)

// errForeign is a record of another owner whose long name has the same hash.
var errForeign = errors.New("it is another attachment's")

// read reads the record.
func (j *journal) read() (Record, error) {
	rec, err := readRecord(j.f, j.path)
	o := owner{rec.Network, rec.ContainerID, rec.IfName}
	if err == nil && o != j.owner {
		err = fmt.Errorf("it is of network %q, container %q, interface %q", o.Network, o.ContainerID, o.IfName)
		if _, unique := ownerOfKey(j.key()); unique { // somebody has put it there
			return Record{}, damage{err}
		}
		return Record{}, fmt.Errorf("%w: %w", errForeign, err)
	}
	return rec, err
}

// readRecord reads anybody's record from an open file. An attachment that does not decode is in its Bad.
func readRecord(f *os.File, path string) (rec Record, err error) {
	rec.Path = path
	info, err := f.Stat()
	if err != nil {
		return rec, err
	}
	if info.Size() > maxRecord {
		return rec, damage{fmt.Errorf("%d bytes: no record is that large", info.Size())}
	}
	data, err := (&journal{f: f}).text()
	if err != nil {
		return rec, err
	}
	first, rest, _ := bytes.Cut(data, []byte("\n"))
	h, err := readHeader(first)
	if err != nil {
		return rec, damage{err}
	}
	rec.Network, rec.ContainerID, rec.IfName = h.Network, h.ContainerID, h.IfName
	rec.Netns, rec.args = h.Netns, h.Args
	rec.Args, _ = netconf.ParseArgs(h.Args) // what an ADD could use decodes; of a damaged record's, what does
	results, gone := events(&rec, rest)
	for i, e := range h.Attachments {
		if gone[e.IfName] {
			continue
		}
		network, err := ParseNetwork(e.Network)
		if err != nil {
			rec.Bad = append(rec.Bad, fmt.Errorf("attachments[%d], interface %q: %w", i, e.IfName, err))
			continue
		}
		rec.Attachments = append(rec.Attachments, Attachment{Network: network, IfName: e.IfName, Args: e.Args,
			RuntimeConfig: e.RuntimeConfig, Result: results[e.IfName]})
	}
	return rec, nil
}

// text is all that the file has.
func (j *journal) text() ([]byte, error) { return io.ReadAll(io.NewSectionReader(j.f, 0, maxRecord)) }

func readHeader(text []byte) (header, error) {
	var v struct {
		Version int `json:"version"`
	}
	var h header
	err := json.Unmarshal(text, &v)
	switch {
	case v.Version > recordVersion: // its other keys may be of other types
		return h, fmt.Errorf("its layout has version %d, of a newer plugin: expected %d", v.Version, recordVersion)
	case err != nil:
		return h, err
	case v.Version != recordVersion:
		return h, errors.New("without a version")
	}
	if err := json.Unmarshal(text, &h); err != nil {
		return h, err
	}
	if err := h.check(); err != nil {
		return h, err
	}
	if len(h.Attachments) == 0 {
		return h, errors.New("without attachments")
	}
	return h, nil
}

// events reads the further lines. The last result of an attachment counts.
func events(rec *Record, lines []byte) (results map[string]json.RawMessage, gone map[string]bool) {
	results, gone = map[string]json.RawMessage{}, map[string]bool{}
	for text := range bytes.SplitSeq(lines, []byte("\n")) {
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		var e event
		if err := json.Unmarshal(text, &e); err != nil {
			rec.lost++
			continue
		}
		gone[e.IfName] = gone[e.IfName] || e.Gone
		if e.Result != nil {
			results[e.IfName] = e.Result
		}
	}
	return results, gone
}

// newHeader is what a record says of an ADD.
func newHeader(s Set, req *netconf.Request) (header, error) {
	h := header{Version: recordVersion, owner: ownerOf(req), Netns: req.Netns, Args: req.ArgsText()}
	for _, a := range s.Attachments {
		document, err := a.Network.Bytes()
		if err != nil {
			return h, named(a, err)
		}
		h.Attachments = append(h.Attachments, entry{a.IfName, document, a.Args, a.RuntimeConfig})
	}
	return h, nil
}
