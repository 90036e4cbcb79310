package netconf

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// level is an object or an array that the walk is in.
type level struct {
	object bool
	first  int            // of an object: where its keys begin in the list of keys
	index  int            // of an array: the element
	seen   map[string]int // an object of many keys: where in the list each is
}

// key is a key of an object, and where it begins.
type key struct {
	name []byte
	at   int
}

// repeats calls found for each key of a valid text that is given again in the same object, at any depth, with the
// place of the earlier one, which does not count. It stops where found wants no more. It is one walk, and makes nothing
// for an object of a few keys: a GC's list has thousands of them.
func repeats(data []byte, found func(path string, at int) (more bool)) {
	var levels []level
	var keys []key
	for i := 0; i < len(data); i++ {
		top := len(levels) - 1
		switch data[i] {
		case '{', '[':
			levels = append(levels, level{object: data[i] == '{', first: len(keys)})
		case '}', ']':
			keys, levels = keys[:levels[top].first], levels[:top]
		case ',':
			levels[top].index++
		case '"':
			end := skipValue(data, i)
			if next := skipSpace(data, end); next < len(data) && data[next] == ':' {
				k := key{keyBytes(data[i:end]), i}
				keys = append(keys, k)
				if earlier := levels[top].find(keys); earlier >= 0 && !found(pathTo(levels, keys), keys[earlier].at) {
					return
				}
			}
			i = end - 1
		}
	}
}

// few is up to how many keys are compared one by one.
const few = 16

// find returns where in the list the last key of it is before, -1 if nowhere.
func (l *level) find(keys []key) int {
	last := len(keys) - 1
	if last-l.first < few {
		for i := last - 1; i >= l.first; i-- {
			if bytes.Equal(keys[i].name, keys[last].name) {
				return i
			}
		}
		return -1
	}
	if l.seen == nil {
		l.seen = make(map[string]int, 2*few)
		for i := l.first; i < last; i++ {
			l.seen[string(keys[i].name)] = i
		}
	}
	i, ok := l.seen[string(keys[last].name)]
	l.seen[string(keys[last].name)] = last
	if !ok {
		return -1
	}
	return i
}

// pathTo is the path of the last key. The last key of each object is the one that the next level is the value of.
func pathTo(levels []level, keys []key) string {
	path := ""
	for i, l := range levels[:len(levels)-1] {
		if !l.object {
			path += fmt.Sprintf("[%d]", l.index)
			continue
		}
		path = join(path, string(keys[levels[i+1].first-1].name))
		if len(path) > maxPath { // more is not shown, and 10,000 levels would take their time
			break
		}
	}
	return join(path, string(keys[len(keys)-1].name))
}

// keyBytes is the text of a JSON string, without a copy where it holds no escape.
func keyBytes(quoted []byte) []byte {
	if bytes.IndexByte(quoted, '\\') < 0 && utf8.Valid(quoted) {
		return quoted[1 : len(quoted)-1]
	}
	return []byte(unquote(quoted))
}
