package delegate

import (
	"bytes"
	"context"
	"encoding/json"
	"os"

	"github.com/cnikit/cnikit/netconf"
)

// maxGrown is the size, in bytes, above which SetResult does not add a line but writes the record anew: who sets the
// routes of a container that lives for a year would fill it, and what is larger than maxRecord cannot be read.
const maxGrown = 1 << 20

// rewrite replaces the file by one that has the first line, what is gone, and the last result of each that is not, with
// that of e. Afterwards the journal is of a file without a name: nothing more can be noted.
func (r Records) rewrite(ctx context.Context, req *netconf.Request, j *journal, e event) error {
	text, err := j.text()
	if err != nil {
		return j.failed(err)
	}
	first, rest, _ := bytes.Cut(text, []byte("\n"))
	h, err := readHeader(first)
	if err != nil {
		return j.failed(err) // cannot be: it was just read
	}
	results, gone := events(&Record{}, rest)
	results[e.IfName] = e.Result
	lines := [][]byte{first}
	for _, a := range h.Attachments {
		var data []byte
		switch result := results[a.IfName]; {
		case gone[a.IfName]:
			data, err = line(event{IfName: a.IfName, Gone: true})
		case result != nil:
			data, err = line(event{IfName: a.IfName, Result: json.RawMessage(result)})
		default:
			continue
		}
		if err != nil {
			return j.failed(err)
		}
		lines = append(lines, data)
	}
	return j.failed(r.replace(ctx, req, j, bytes.Join(lines, []byte("\n"))))
}

// replace writes a draft and moves it into the record's place.
func (r Records) replace(ctx context.Context, req *netconf.Request, j *journal, text []byte) error {
	ctx = context.WithoutCancel(ctx)
	if err := remove(ctx, j.key()+draftEnding, j.draft()); err != nil { // of a killed call
		return err
	}
	if err := netconf.Before(ctx, "record rewrite "+j.key()); err != nil {
		return err
	}
	f, err := os.OpenFile(j.draft(), os.O_RDWR|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	own := &journal{owner: j.owner, path: j.path, f: f}
	defer own.release()
	err = own.append(text)
	if err == nil {
		err = netconf.Before(ctx, "record sync "+j.key())
	}
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = netconf.Before(ctx, "record rename "+j.key()+draftEnding)
	}
	if err == nil {
		err = os.Rename(j.draft(), j.path)
	}
	if err == nil {
		return syncFolder(r.Dir)
	}
	if failed := own.dropDraft(ctx); failed != nil {
		warn(req, "the draft of a record stays", "error", failed.Error())
	}
	return err
}
