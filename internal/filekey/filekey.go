package filekey

import (
	"fmt"
	"hash/fnv"
	"strings"
)

const (
	maxKey   = 200 // bytes of a file's name, which may have 255, with what stands behind the key
	hashSize = 16  // hexadecimal digits; one more than an interface name, the last part, may have bytes
)

// Join is the key of parts that are names.
func Join(parts ...string) string {
	if key := strings.Join(parts, ":"); len(key) <= maxKey {
		return key
	}
	return Hashed(strings.Join(parts, ":"), parts...)
}

// Hashed is the key of any parts: a prefix, which may be empty and is cut to what there is room for, and their hash.
func Hashed(prefix string, parts ...string) string {
	h := fnv.New64a()
	for i, part := range parts {
		if i > 0 {
			h.Write([]byte{':'}) // a hash's never fails
		}
		fmt.Fprintf(h, "%q", part) // "a:b" and "c" are not "a" and "b:c"
	}
	return fmt.Sprintf("%.*s:%0*x", maxKey-hashSize-1, prefix, hashSize, h.Sum64())
}

// Split is the way back: the n parts of a key, of which the last is the name of an interface; not ok if it has a hash.
func Split(key string, n int) (parts []string, ok bool) {
	parts = strings.Split(key, ":")
	if len(parts) != n || len(parts[n-1]) >= hashSize {
		return nil, false
	}
	return parts, true
}
