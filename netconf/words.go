package netconf

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"
)

// mismatch notes that something else stands at off than the wanted kind of value.
func (d *decoder) mismatch(want, path string, off int) {
	err := wrongType(want, d.src[off:])
	if secret(path) {
		err = fmt.Errorf("expected %s, got %s", want, kindOf(d.src[off:]))
	}
	d.fail(CodeDecodingFailure, path, off, err)
}

func wrongType(want string, raw []byte) error {
	return fmt.Errorf("expected %s, got %s", want, describe(raw))
}

// describe names what stands at the start of raw without repeating a text, which may be a secret.
func describe(raw []byte) string {
	if kind := kindOf(raw); kind != "a number" {
		return kind
	}
	return "the number " + string(raw[:min(skipValue(raw, 0), 24)])
}

// kindOf names the kind of JSON value that stands at the start of raw.
func kindOf(raw []byte) string {
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

// nameOf is what a type is called in JSON.
func nameOf(t reflect.Type) string {
	if e, ok := reflect.Zero(t).Interface().(interface{ Expects() string }); ok && t.Kind() != reflect.Pointer {
		return e.Expects()
	}
	if textual(t) {
		return "a string"
	}
	switch t.Kind() {
	case reflect.Pointer:
		return nameOf(t.Elem())
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() != reflect.Uint8 { // a []byte is base64
			return "an array"
		}
	case reflect.Bool:
		return "a boolean"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return fmt.Sprintf("an integer of %d bits", t.Bits())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return fmt.Sprintf("a non-negative integer of %d bits", t.Bits())
	case reflect.Float32, reflect.Float64:
		return "a number"
	}
	return "a string"
}

// textual tells whether values of a type, or pointers to them, are read from a string by the type itself.
func textual(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// maxWord is how long, in bytes, a text may be that an error shows although nothing is known of it: a word
// such as "bridge" or "eth0". Tokens and passwords are longer.
const maxWord = 12

// secret tells whether the value at a path should not be shown.
func secret(path string) bool {
	path = strings.ToLower(path)
	for _, word := range []string{"token", "secret", "pass", "key", "credential", "auth", "cert"} {
		if strings.Contains(path, word) {
			return true
		}
	}
	return false
}
