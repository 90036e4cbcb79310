package netconf

import (
	"reflect"
	"slices"
	"strings"
)

// field is a struct field that JSON can set.
type field struct {
	name  string
	index []int
}

// fieldsOf lists a struct's fields by their JSON names, those of embedded structs too; the outer one
// of two with the same name comes first.
func fieldsOf(t reflect.Type) []field {
	var fields []field
	all := appendFields(nil, t, nil, nil)
	for depth := 1; len(fields) < len(all); depth++ { // a generic sort of them is 9 kB of every plugin
		for _, f := range all {
			if len(f.index) == depth {
				fields = append(fields, f)
			}
		}
	}
	return fields
}

func appendFields(out []field, t reflect.Type, at []int, within []reflect.Type) []field {
	if slices.Contains(within, t) {
		return out // a type that embeds itself
	}
	within = append(slices.Clip(within), t)
	for i := range t.NumField() {
		f := t.Field(i)
		index := append(slices.Clip(at), i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch {
		case f.Tag.Get("json") == "-":
		case f.Anonymous && name == "" && inner.Kind() == reflect.Struct:
			if f.IsExported() || f.Type.Kind() == reflect.Struct { // a nil pointer to an unexported one cannot be set
				out = appendFields(out, inner, index, within)
			}
		case !f.IsExported():
		case name == "":
			out = append(out, field{f.Name, index})
		default:
			out = append(out, field{name, index})
		}
	}
	return out
}

// fieldByIndex is reflect's, making the embedded pointers on the way.
func fieldByIndex(v reflect.Value, index []int) reflect.Value {
	for _, i := range index {
		if v.Kind() == reflect.Pointer {
			if v.IsNil() {
				v.Set(reflect.New(v.Type().Elem()))
			}
			v = v.Elem()
		}
		v = v.Field(i)
	}
	return v
}

// Nearest returns the known name that a mistyped one may stand for, for "did you mean": at most two slips of the finger
// away, or one for a name of up to four letters. It is "" if none is near, and for a known name itself.
func Nearest(name string, known ...string) string {
	if slices.Contains(known, name) {
		return ""
	}
	return nearest(name[:min(len(name), maxPath)], known)
}

// nearest returns the known name that a mistyped one may stand for, "" if none is near: at most two
// slips of the finger away, or one for a name of up to four letters.
func nearest(name string, known []string) string {
	best, bestDistance := "", 3
	if len(name) <= 4 {
		bestDistance = 2
	}
	for _, k := range known {
		if len(name) > len(k)+2 {
			continue
		}
		if n := distance(strings.ToLower(name), strings.ToLower(k)); n < bestDistance && n < len(k) {
			best, bestDistance = k, n
		}
	}
	return best
}

// distance is how many letters must be put in, taken out, replaced, or swapped with their neighbour.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	var above, above2 []int
	for i := range len(a) {
		above2, above, row = above, row, make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			n := above[j]
			if a[i] != b[j] {
				n++
			}
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				n = min(n, above2[j-1]+1)
			}
			row[j+1] = min(n, row[j]+1, above[j+1]+1)
		}
	}
	return row[len(b)]
}
