package netconf

import (
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
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

// maxWord is how long, in bytes, a text may be that an error shows of a key which is known to be no secret's: a word
// such as "bridge" or "eth0". What is longer is more likely something else that stands in the wrong place.
const maxWord = 12

// harmless tells whether an error may show the value of an unknown key; near is the known one that it may stand for, if
// any. A number or a boolean under a key that does not sound secret is shown. A text only where the key
// is a slip of a known one: of another key nobody knows what it holds, and a password can have six letters.
func harmless(key, near, value string) bool {
	switch value[0] {
	case '{', '[':
		return false
	case '"':
		return near != "" && !secret(key) && !secret(near) && len(value)-2 <= maxWord
	}
	return !secret(key) && len(value) <= 24
}

// secret tells whether the value at a path should not be shown: by what is in its names, or, of what is in many harmless
// words too ("mapping"), by a whole word of them.
func secret(path string) bool {
	lower := strings.ToLower(path)
	for _, part := range []string{"token", "secret", "pass", "pwd", "psk", "key", "cred", "auth", "cert", "private", "bearer", "login", "jwt", "seed"} {
		if strings.Contains(lower, part) {
			return true
		}
	}
	return slices.ContainsFunc(words(path), func(word string) bool {
		return word == "pin" || word == "pw" || word == "otp" || word == "salt" || word == "code" || word == "phrase" || word == "cookie"
	})
}

// words are those of a path, in lower case: "ipam.simPIN[0]" has ipam, sim and pin.
func words(path string) []string {
	var out []string
	lower, from := strings.ToLower(path), 0
	for i := 0; i <= len(lower); i++ {
		letter := i < len(lower) && lower[i] >= 'a' && lower[i] <= 'z'
		hump := letter && i > 0 && len(lower) == len(path) && lower[i] != path[i] && path[i-1] == lower[i-1]
		if !letter || hump {
			if from < i {
				out = append(out, lower[from:i])
			}
			if from = i; !letter {
				from++
			}
		}
	}
	return out
}

// unaware tells whether an error is one of the standard library's, which knows nothing of secrets: those of netip.Addr,
// time.Time and big.Int repeat what they could not read, and so do those that a type passes on from them, or from strconv.
func unaware(t reflect.Type, err error) bool {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Map && t.Name() == "" {
		if t.Kind() == reflect.Map {
			t = t.Key() // a map that is decoded whole is one whose keys read themselves
		} else {
			t = t.Elem()
		}
	}
	for ; err != nil; err = errors.Unwrap(err) {
		e := reflect.TypeOf(err)
		if e.Kind() == reflect.Pointer {
			e = e.Elem()
		}
		if path := e.PkgPath(); standard(path) && path != "fmt" && path != "errors" && path != "encoding/base64" {
			return true
		}
	}
	return standard(t.PkgPath())
}

// standard tells whether a package is of the standard library: there is no dot before the first slash.
func standard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return path != "" && path != "main" && !strings.Contains(first, ".")
}

// told is a value as it may be said aloud.
func told(raw []byte) string {
	if raw[0] == '"' {
		return shown([]byte(unquote(raw)))
	}
	return describe(raw)
}
