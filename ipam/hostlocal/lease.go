package hostlocal

import (
	"context"
	"errors"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/cnikit/cnikit/netconf"
)

// The files of the reference plugin: ADDRESS, which says who has it; last_reserved_ip.N, the address that was given
// last from set N; lock. Ours beside them begin with last_reserved_ip., which its GC spares.
const (
	lastName = "last_reserved_ip."
	lockName = "lock"
	newName  = "last_reserved_ip.cnikit-new"

	maxLease = 1 << 20 // bytes of a lease's file that are read; an ID has a few dozen
)

// ownerOf is what a lease's file says of an attachment, and what the oldest releases of the reference plugin wrote,
// which has no interface.
func ownerOf(containerID, ifname string) (owner, old string) {
	old = strings.TrimSpace(containerID)
	return old + "\r\n" + ifname, old
}

// owner is the owner that the content of a lease's file names; "" if the file is empty, or was half on the disk when the power
// went.
func owner(content []byte) string {
	return strings.TrimSpace(strings.Trim(string(content), "\x00"))
}

// fileName is the name of an address's file.
func fileName(a netip.Addr) string {
	if runtime.GOOS == "windows" {
		return strings.ReplaceAll(a.String(), ":", "_")
	}
	return a.String()
}

// addressOf is the address whose file has a name.
func addressOf(name string) (netip.Addr, bool) {
	if name == "" || !strings.ContainsRune("0123456789abcdef:", rune(name[0])) {
		return netip.Addr{}, false
	}
	text := name
	if runtime.GOOS == "windows" {
		text = strings.ReplaceAll(name, "_", ":")
	}
	a, err := netip.ParseAddr(text)
	return a, err == nil && a.Zone() == "" && fileName(a) == name
}

func (s *store) path(name string) string { return filepath.Join(s.dir, name) }

// holder reads who has an address: "" if the file says nothing. free tells that there is no file.
func (s *store) holder(a netip.Addr) (who string, free bool, err error) {
	content, _, err := readLease(s.path(fileName(a)))
	if errors.Is(err, fs.ErrNotExist) {
		return "", true, nil
	}
	return owner(content), false, err
}

// newLease makes a file that is complete and has no address's name yet: a lease is there whole or not at all, whenever the
// process is killed. Its time is two seconds in the past, so that no other file can have the same version.
func (s *store) newLease(ctx context.Context, who string) error {
	path := s.path(newName)
	if err := netconf.Before(ctx, "write "+path); err != nil {
		return err
	}
	s.index.changed = true // whatever becomes of the lease, the folder has another time now
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) { // of a process that was killed; it may be a lease's second name, so it is not written to
		if err = os.Remove(path); err == nil {
			f, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		}
	}
	if err != nil {
		return s.unusable(err)
	}
	if err := s.fill(ctx, f, who); err != nil {
		return netconf.Join(err, s.discard(context.WithoutCancel(ctx), newName))
	}
	return nil
}

// fill writes the new lease, and closes it.
func (s *store) fill(ctx context.Context, f *os.File, who string) error {
	path := s.path(newName)
	if err := netconf.Before(ctx, "fill "+path); err != nil {
		_ = f.Close() // nothing was written
		return err
	}
	_, err := f.WriteString(who)
	if err = errors.Join(err, f.Close()); err != nil {
		return s.unusable(err)
	}
	if err := netconf.Before(ctx, "date "+path); err != nil {
		return err
	}
	if err = os.Chtimes(path, time.Time{}, time.Now().Add(-2*time.Second)); err == nil {
		s.made, err = versionOf(path)
	}
	if err != nil {
		return s.unusable(err)
	}
	return nil
}

// name gives the new lease an address's name, unless that is taken.
func (s *store) name(ctx context.Context, a netip.Addr) (taken bool, err error) {
	path := s.path(fileName(a))
	if err := netconf.Before(ctx, "link "+path); err != nil {
		return false, err
	}
	err = os.Link(s.path(newName), path)
	if errors.Is(err, fs.ErrExist) {
		return true, nil
	}
	if err != nil {
		return false, s.unusable(err)
	}
	return false, nil
}

// release removes a lease.
func (s *store) release(ctx context.Context, a netip.Addr, who string) error {
	path := s.path(fileName(a))
	if err := netconf.Before(ctx, "remove "+path); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return s.unusable(err)
	}
	s.index.remove(who, a)
	return nil
}

// last reads the address that was given last from a set; not valid if that is not known.
func (s *store) last(n string) netip.Addr {
	text, _, err := readLease(s.path(lastName + n))
	if err != nil {
		return netip.Addr{} // the search begins at the first address
	}
	a, err := netip.ParseAddr(string(text))
	if err != nil {
		return netip.Addr{} // half-written
	}
	return a.Unmap()
}

func (s *store) setLast(ctx context.Context, n string, a netip.Addr) error {
	path := s.path(lastName + n)
	if err := netconf.Before(ctx, "write "+path); err != nil {
		return err
	}
	size, err := overwrite(path, a.String())
	if err == nil && size > int64(len(a.String())) {
		if err := netconf.Before(ctx, "truncate "+path); err != nil {
			return err
		}
		err = os.Truncate(path, int64(len(a.String())))
	}
	if err != nil {
		return s.unusable(err)
	}
	return nil
}

// overwrite writes a short file without making it empty first, and tells how long it is then, with the end of the old text: what is written into an emptied file ext4 sends to the
// disk when it is closed, 2 ms here. Killed before it is cut, the file names no address, or another one: then the search
// begins there.
func overwrite(path, text string) (size int64, err error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|syscall.O_NONBLOCK, 0o600) // a FIFO is an error
	if err != nil {
		return 0, err
	}
	_, err = f.WriteString(text)
	info, statErr := f.Stat()
	if err = errors.Join(err, statErr, f.Close()); err != nil {
		return 0, err
	}
	return info.Size(), nil
}
