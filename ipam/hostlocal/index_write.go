package hostlocal

import (
	"encoding/binary"
	"errors"
	"os"
	"time"
)

// finish writes what is not in the file yet, and vouches for it if it is trusted.
func (x *index) finish() error {
	if !x.changed || x.err != nil {
		return x.err
	}
	if x.f == nil {
		f, err := os.OpenFile(x.path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		x.f = f
	}
	if x.mem != nil {
		if err := x.write(x.mem, headSize); err != nil {
			x.fail(err) // it is not tried again by this call: the leases may need what the disk has left
			x.changed = false
			return err
		}
		size := int64(headSize + len(x.mem))
		if info, err := x.f.Stat(); err != nil || info.Size() != size {
			if err = errors.Join(err, x.f.Truncate(size)); err != nil {
				return err
			}
		}
		x.mem, x.chunkAt = nil, 0
	}
	x.changed = false
	stamp := time.Now().Add(-2 * time.Second)
	if err := x.write(x.head(stamp), 0); err != nil {
		return err
	}
	if err := x.date(x.path, stamp); err != nil || !x.trusted {
		return err
	}
	return x.date(x.dir, stamp)
}

// write writes into the file.
func (x *index) write(b []byte, off int64) error {
	if err := x.ask(); err != nil {
		return err
	}
	_, err := x.f.WriteAt(b, off)
	return err
}

// date gives the file or the folder its time.
func (x *index) date(path string, stamp time.Time) error {
	if err := x.ask(); err != nil {
		return err
	}
	return os.Chtimes(path, time.Time{}, stamp)
}

func (x *index) ask() error {
	if x.before == nil {
		return nil
	}
	return x.before()
}

func (x *index) head(stamp time.Time) []byte {
	h := make([]byte, headSize)
	copy(h, magic)
	for i, v := range []uint64{x.boot, uint64(stamp.UnixNano()), x.slots, x.used} {
		binary.LittleEndian.PutUint64(h[8*(i+1):], v)
	}
	binary.LittleEndian.PutUint64(h[40:], sum(h[:40]))
	return h
}
