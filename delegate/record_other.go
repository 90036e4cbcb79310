//go:build !unix

package delegate

// syncFolder has nothing to do here: a folder cannot be synced, and plugins run on Linux.
func syncFolder(string) error { return nil }
