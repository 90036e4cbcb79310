package netconf

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// Decode reads the plugin's own keys from the request's configuration into what defaults returns
// (the zero value if defaults is nil), field by field as encoding/json would, except that
//
//   - all errors are reported together, each with JSON path, line and column (code 6), and a field
//     that does not decode leaves the others as they were given;
//   - an exact key name goes before one in another case, which is accepted with a warning;
//   - an unknown key is warned about with the nearest known one, or is an error with code 2 where the
//     request is strict; the sections that belong to others (ipam, args, runtimeConfig, cni.dev/...)
//     are not looked into;
//   - null leaves the default;
//   - on DEL and GC nothing is an error: what does not decode is warned about.
func Decode[T any](req *Request, defaults func() T) (*T, error) {
	conf := fresh(defaults)
	if req.Lenient() && checkJSON(req.Config) != nil {
		return conf, nil // Parse has warned
	}
	d := decoder{src: req.Config, warn: req.Warn, strict: req.Strict && !req.Lenient()}
	err := d.decode(conf)
	if err != nil && req.Lenient() {
		for _, e := range d.errs {
			req.Warn("ignored: " + e.Error())
		}
		err = nil
	}
	return conf, err
}

// DecodeJSON is Decode for bytes alone, strict about nothing: unknown keys are passed over.
func DecodeJSON[T any](config []byte, defaults func() T) (*T, error) {
	conf := fresh(defaults)
	d := decoder{src: config, quiet: true}
	return conf, d.decode(conf)
}

func fresh[T any](defaults func() T) *T {
	conf := new(T)
	if defaults != nil {
		*conf = defaults()
	}
	return conf
}

// decoder is one walk over a configuration.
type decoder struct {
	src    []byte
	warn   func(msg string, args ...any) // nil drops
	quiet  bool                          // unknown keys are not mentioned
	strict bool                          // unknown keys are errors
	errs   []error
}

func (d *decoder) decode(conf any) error {
	if err := checkJSON(d.src); err != nil {
		return err
	}
	d.top(conf)
	return Join(d.errs...)
}

// top decodes the whole text into the struct that conf points to. Of the keys that the
// specification defines, those that conf does not have are known all the same.
func (d *decoder) top(conf any) {
	v := reflect.ValueOf(conf).Elem()
	if v.Kind() != reflect.Struct {
		d.value("", skipSpace(d.src, 0), v)
		return
	}
	known := fieldsOf(reflect.TypeFor[Network](), nil)
	d.object("", skipSpace(d.src, 0), v, known)
}

func (d *decoder) fail(code uint, path string, off int, err error) {
	line, column := position(d.src, off)
	d.errs = append(d.errs, &Error{Op: "configuration", Path: path, Line: line, Column: column, Code: code, Err: err})
}

func (d *decoder) warnf(off int, format string, args ...any) {
	if d.warn != nil {
		line, column := position(d.src, off)
		d.warn(fmt.Sprintf("configuration: line %d, column %d: ", line, column) + fmt.Sprintf(format, args...))
	}
}

// object decodes the object at off into a struct; also holds the names of keys that are others' business.
func (d *decoder) object(path string, off int, v reflect.Value, also []field) {
	if d.src[off] != '{' {
		d.fail(CodeDecodingFailure, path, off, wrongType("an object", d.src[off:]))
		return
	}
	fields := fieldsOf(v.Type(), nil)
	ms := members(d.src, off)
	exact := map[string]bool{}
	for _, m := range ms {
		if exact[m.key] {
			d.warnf(m.at, "key %q is given again: the last one counts", join(path, m.key))
		}
		exact[m.key] = true
	}
	for _, m := range ms {
		f, ok := find(fields, m.key, exact)
		if !ok {
			if _, known := find(also, m.key, exact); !known {
				d.unknown(path, m, append(fields, also...))
			}
			continue
		}
		if f.name != m.key {
			d.warnf(m.at, "key %q is read as %q: names are case-sensitive", join(path, m.key), f.name)
		}
		d.value(join(path, f.name), m.start, fieldByIndex(v, f.index))
	}
}

// find looks a key up: by its exact name, else in another case unless the exact one is there too.
func find(fields []field, key string, exact map[string]bool) (field, bool) {
	for _, f := range fields {
		if f.name == key {
			return f, true
		}
	}
	for _, f := range fields {
		if strings.EqualFold(f.name, key) && !exact[f.name] {
			return f, true
		}
	}
	return field{}, false
}

// unknown mentions a key that nobody reads, unless it stands in a section of somebody else's.
func (d *decoder) unknown(path string, m member, fields []field) {
	section, _, _ := strings.Cut(path, ".")
	if d.quiet || section == "ipam" || section == "args" || section == "runtimeConfig" || strings.HasPrefix(join(path, m.key), "cni.dev/") {
		return
	}
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	hint := ""
	if near := nearest(m.key, names); near != "" {
		hint = fmt.Sprintf("; did you mean %q?", near)
	}
	if d.strict {
		value := string(m.value(d.src))
		if len(value) > 40 || value[0] == '{' || value[0] == '[' || secret(m.key) {
			value = describe(m.value(d.src))
		}
		d.fail(CodeUnsupportedField, join(path, m.key), m.at, fmt.Errorf("unknown key, value %s%s", value, hint))
		return
	}
	d.warnf(m.at, "unknown key %q is ignored%s", join(path, m.key), hint)
}

// secret tells whether the value of a key should not be shown.
func secret(key string) bool {
	key = strings.ToLower(key)
	for _, word := range []string{"token", "secret", "password", "passwd", "key", "credential"} {
		if strings.Contains(key, word) {
			return true
		}
	}
	return false
}

// value decodes the value at off into v.
func (d *decoder) value(path string, off int, v reflect.Value) {
	raw := d.src[off:skipValue(d.src, off)]
	if string(raw) == "null" {
		return
	}
	if v.CanAddr() && decodesItself(v.Addr().Interface()) {
		d.leaf(path, off, raw, v)
		return
	}
	switch kind := v.Kind(); {
	case kind == reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		d.value(path, off, v.Elem())
	case kind == reflect.Struct:
		d.object(path, off, v, nil)
	case kind == reflect.Slice && v.Type().Elem().Kind() != reflect.Uint8:
		d.slice(path, off, raw, v)
	case kind == reflect.Map && v.Type().Key().Kind() == reflect.String:
		d.mapping(path, off, raw, v)
	default:
		d.leaf(path, off, raw, v)
	}
}

func decodesItself(p any) bool {
	switch p.(type) {
	case json.Unmarshaler, encoding.TextUnmarshaler:
		return true
	}
	return false
}

// slice decodes an array; an element that does not decode is left at its zero value.
func (d *decoder) slice(path string, off int, raw []byte, v reflect.Value) {
	if raw[0] != '[' {
		d.fail(CodeDecodingFailure, path, off, wrongType("an array", raw))
		return
	}
	els := elements(d.src, off)
	out := reflect.MakeSlice(v.Type(), len(els), len(els))
	for i, e := range els {
		d.value(fmt.Sprintf("%s[%d]", path, i), e.start, out.Index(i))
	}
	v.Set(out)
}

// mapping decodes an object into a map; what stands in the map by default is kept beside it.
func (d *decoder) mapping(path string, off int, raw []byte, v reflect.Value) {
	if raw[0] != '{' {
		d.fail(CodeDecodingFailure, path, off, wrongType("an object", raw))
		return
	}
	out := reflect.MakeMap(v.Type())
	for _, k := range v.MapKeys() {
		out.SetMapIndex(k, v.MapIndex(k))
	}
	for _, m := range members(d.src, off) {
		elem := reflect.New(v.Type().Elem()).Elem()
		d.value(join(path, m.key), m.start, elem)
		out.SetMapIndex(reflect.ValueOf(m.key).Convert(v.Type().Key()), elem)
	}
	v.Set(out)
}

// leaf decodes what has no parts of its own.
func (d *decoder) leaf(path string, off int, raw []byte, v reflect.Value) {
	target := reflect.New(v.Type()) // so that a half-decoded value cannot overwrite the default
	err := json.Unmarshal(raw, target.Interface())
	if err == nil {
		v.Set(target.Elem())
		return
	}
	var mismatch *json.UnmarshalTypeError
	if errors.As(err, &mismatch) {
		err = wrongType(nameOf(v.Type()), raw)
	}
	d.fail(CodeDecodingFailure, path, off, err)
}

func wrongType(want string, raw []byte) error {
	return fmt.Errorf("expected %s, got %s", want, describe(raw))
}

// describe names what stands at the start of raw without repeating a text, which may be a secret.
func describe(raw []byte) string {
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
	return "the number " + string(raw[:min(skipValue(raw, 0), 24)])
}

// nameOf is what a type is called in JSON.
func nameOf(t reflect.Type) string {
	switch t.Kind() {
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

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// field is a struct field that JSON can set.
type field struct {
	name  string
	index []int
}

// fieldsOf lists a struct's fields by their JSON names, those of embedded structs too; the outer
// one of two with the same name comes first.
func fieldsOf(t reflect.Type, at []int) []field {
	var own, embedded []field
	for i := range t.NumField() {
		f := t.Field(i)
		index := append(append([]int(nil), at...), i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch {
		case name == "-" && f.Tag.Get("json") == "-":
		case f.Anonymous && name == "" && inner.Kind() == reflect.Struct:
			if f.IsExported() || f.Type.Kind() == reflect.Struct {
				embedded = append(embedded, fieldsOf(inner, index)...)
			}
		case !f.IsExported():
		case name == "":
			own = append(own, field{f.Name, index})
		default:
			own = append(own, field{name, index})
		}
	}
	return append(own, embedded...)
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

// nearest returns the known name that a mistyped one may stand for, "" if none is near: at most two
// edits away, or one for a name of up to four letters.
func nearest(name string, known []string) string {
	best, bestDistance := "", 3
	if len(name) <= 4 {
		bestDistance = 2
	}
	for _, k := range known {
		if len(name) > 64 {
			break
		}
		if n := distance(strings.ToLower(name), strings.ToLower(k)); n < bestDistance && n < len(k) {
			best, bestDistance = k, n
		}
	}
	return best
}

// distance is Levenshtein's.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			substitution := diagonal
			if a[i] != b[j] {
				substitution++
			}
			diagonal = row[j+1]
			row[j+1] = min(substitution, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}
