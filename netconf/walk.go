package netconf

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
)

// Member is a member of a JSON object, or an element of an array, with the offsets of what it is made of.
type Member struct {
	Key        string // "" of an element
	At         int    // where the key begins; of an element, the value
	Start, End int    // the value
}

// Value is the member's value in the text that it was found in.
func (m Member) Value(text []byte) json.RawMessage { return json.RawMessage(text[m.Start:m.End]) }

// Members lists the members of the object, or the elements of the array, that begins at off, or behind white space
// there, in a text that is valid JSON; nil if there is neither. encoding/json tells no offset of a value that decodes:
// this is for who says where something stands.
func Members(text []byte, off int) []Member {
	found := members(text, off)
	if found == nil {
		found = elements(text, off)
	}
	var out []Member
	for _, m := range found {
		out = append(out, Member{m.key, m.at, m.start, m.end})
	}
	return out
}

// Newest is the highest of the named versions of the specification that is among the known ones; "" if none is.
func Newest(named, known []string) string {
	best := ""
	for _, v := range named {
		if slices.Contains(known, v) && (best == "" || compareVersions(v, best) > 0) {
			best = v
		}
	}
	return best
}

// Switch is a boolean of a list of plugins (disableCheck, say), also as a text in any case: libcni reads it so.
type Switch bool

// UnmarshalJSON reads true, false, "true" and "false".
func (s *Switch) UnmarshalJSON(text []byte) error {
	switch strings.ToLower(strings.Trim(string(text), `"`)) {
	case "true":
		*s = true
	case "false":
		*s = false
	default:
		return errors.New("expected true or false")
	}
	return nil
}
