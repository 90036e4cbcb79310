package skeltest

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// stateFolders makes those of the folders that the machine does not have, and returns a function that removes what it
// has made. Each requirement mounts a file system of its own there, which needs a folder; to remove that takes the mount
// away in every namespace. So what is empty is held by a lock, shared with other runs, and who has made it leaves it where
// another run holds it. An error is left to the requirements, which make what is missing too, and say so.
func stateFolders(dirs []string) (remove func()) {
	var held []*os.File
	var made []string
	for _, dir := range dirs {
		dir = filepath.Clean(dir)
		if covered(dir) || slices.ContainsFunc(held, func(f *os.File) bool { return f.Name() == dir }) {
			continue
		}
		missing := missingOf(dir)
		for range 100 { // another run may remove the folder between any two of these
			if os.MkdirAll(dir, 0o755) != nil {
				break
			}
			if f := hold(dir); f != nil {
				held = append(held, f)
				break
			}
		}
		made = append(made, missing...)
	}
	return func() {
		slices.SortFunc(made, func(a, b string) int { return len(b) - len(a) }) // an inner one first
		for _, dir := range made {
			for _, f := range held {
				if f.Name() == dir && unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
					dir = ""
				}
			}
			if dir != "" {
				_ = os.Remove(dir) // one that is not empty stays
			}
		}
		for _, f := range held {
			f.Close()
		}
	}
}

// covered tells whether a folder is in one that each requirement covers: the machine's is not touched then.
func covered(dir string) bool {
	real := dir
	for rest := ""; ; {
		if there, err := filepath.EvalSymlinks(real); err == nil {
			real = filepath.Join(there, rest)
			break
		}
		if real == filepath.Dir(real) {
			return false
		}
		rest, real = filepath.Join(filepath.Base(real), rest), filepath.Dir(real)
	}
	return strings.HasPrefix(real, "/run/") || strings.HasPrefix(real, "/var/lib/cni/")
}

// missingOf lists the folder and those above it that do not exist.
func missingOf(dir string) (missing []string) {
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		missing = append(missing, dir)
	}
	return missing
}

// hold opens and locks a folder that is empty; nil if it is not, and so stays, or if another run has just removed it. It
// does not wait: a plugin's own lock on the folder is none of ours.
func hold(dir string) *os.File {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	names, err := f.Readdirnames(1)
	if len(names) == 0 && errors.Is(err, io.EOF) && unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB) == nil {
		at, err := os.Stat(dir)
		if st, err2 := f.Stat(); err == nil && err2 == nil && os.SameFile(st, at) {
			return f
		}
	}
	f.Close()
	return nil
}
