package flock

import "os"

// StillAt tells whether the open file is the one at path.
func StillAt(f *os.File, path string) bool {
	open, err1 := f.Stat()
	there, err2 := os.Lstat(path)
	return err1 == nil && err2 == nil && os.SameFile(open, there)
}
