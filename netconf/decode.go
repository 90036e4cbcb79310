package netconf

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"reflect"
	"slices"
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
//     are not looked into. Where the request has a Section, only that one is;
//   - null leaves the default;
//   - of a key given twice, at any depth, only the last is read, with a warning;
//   - on DEL and GC nothing is an error: what does not decode is warned about.
//
// A type that reads itself from a text may have a method Expects() string ("an IP prefix such as
// 10.0.0.0/8"), which the error for a number in its place then says. Its own error is one with code 6,
// unless it carries another: 7 where the value is of the right kind, and wrong.
//
// Options of a json tag, such as "string", have no effect. Of very many errors, and of very many
// warnings, the first 20 are told.
func Decode[T any](req *Request, defaults func() T) (*T, error) {
	conf := fresh(defaults)
	warn := req.Warn
	if warn == nil { // a request made by hand
		warn = func(string, ...any) {}
	}
	if req.Lenient() && checkJSON("configuration", req.Config) != nil {
		return conf, nil // Parse has warned
	}
	d := decoder{op: "configuration", src: req.Config, warn: warn, strict: req.Strict && !req.Lenient(), section: req.Section}
	err := d.decode(conf)
	if err != nil && req.Lenient() {
		for _, e := range d.failures() {
			warn("ignored: " + e.Error())
		}
		err = nil
	}
	return conf, err
}

// DecodeJSON is Decode for bytes alone, strict about nothing: unknown keys are passed over.
func DecodeJSON[T any](config []byte, defaults func() T) (*T, error) {
	conf := fresh(defaults)
	d := decoder{op: "configuration", src: config, quiet: true}
	return conf, d.decode(conf)
}

// DecodeAt is DecodeJSON for the value that stands at a JSON path of the request's configuration ("args.cni"), an object
// or not: paths, lines and columns in its errors are those of the whole. null, and a path at which nothing stands,
// leave the default; of a key given twice the last is read.
func DecodeAt[T any](req *Request, path string, defaults func() T) (*T, error) {
	conf := fresh(defaults)
	if err := checkJSON("configuration", req.Config); err != nil {
		return conf, err
	}
	d := decoder{op: "configuration", src: req.Config, quiet: true}
	if off, ok := locate(req.Config, path); ok {
		d.value(path, off, reflect.ValueOf(conf).Elem())
	}
	return conf, Join(d.failures()...)
}

func fresh[T any](defaults func() T) *T {
	conf := new(T)
	if defaults != nil {
		*conf = defaults()
	}
	return conf
}

// maxErrors is how many errors, and how many warnings, one configuration gets: each costs a walk to
// learn its line, and an array of a million wrong elements must not cost hours.
const maxErrors = 20

// decoder is one walk over a text.
type decoder struct {
	op       string // what the text is, for errors
	src      []byte
	warn     func(msg string, args ...any) // nil drops
	quiet    bool                          // unknown keys are not mentioned
	strict   bool                          // unknown keys are errors
	section  string                        // unknown keys are looked for in this object alone; "": in all
	errs     []error
	more     int // errors above maxErrors
	warnings int
	fields   map[reflect.Type][]field
	lines    Lines
}

func (d *decoder) decode(conf any) error {
	if err := checkJSON(d.op, d.src); err != nil {
		return err
	}
	d.top(conf)
	if d.warn != nil {
		repeats(d.src, func(path string, at int) (more bool) {
			d.warnf(at, "key %.256q is given again: the last one counts", path)
			return d.warnings <= maxErrors
		})
	}
	return Join(d.failures()...)
}

// top decodes the whole text into what conf points to. Of the keys that the specification defines,
// those that a struct does not have are known all the same.
func (d *decoder) top(conf any) {
	v, off := reflect.ValueOf(conf).Elem(), skipSpace(d.src, 0)
	if v.Kind() != reflect.Struct || decodesItself(conf) {
		d.value("", off, v)
		return
	}
	var known []field
	if !d.quiet {
		known = d.fieldsOf(reflect.TypeFor[Network]())
		if !slices.ContainsFunc(members(d.src, off), func(m member) bool { return strings.EqualFold(m.key, d.section) && d.src[m.start] == '{' }) {
			d.section = "" // a configuration of its own: all of it is the plugin's
		}
	}
	d.object("", off, v, known)
}

func (d *decoder) fail(code uint, path string, off int, err error) {
	if len(d.errs) == maxErrors {
		d.more++
		return
	}
	line, column := d.place(off)
	d.errs = append(d.errs, &Error{Op: d.op, Path: path, Line: line, Column: column, Code: code, Err: err})
}

func (d *decoder) place(off int) (line, column int) {
	d.lines.Text = d.src
	return d.lines.Place(off)
}

// failures lists what fail noted.
func (d *decoder) failures() []error {
	if d.more == 0 {
		return d.errs
	}
	return append(slices.Clip(d.errs), &Error{Op: d.op, Code: CodeDecodingFailure, Err: fmt.Errorf("and %d more errors", d.more)})
}

func (d *decoder) warnf(off int, format string, args ...any) {
	if d.warn == nil || d.warnings > maxErrors {
		return
	}
	if d.warnings++; d.warnings > maxErrors {
		d.warn(d.op + ": there is more to warn of")
		return
	}
	line, column := d.place(off)
	d.warn(fmt.Sprintf("%s: line %d, column %d: ", d.op, line, column) + fmt.Sprintf(format, args...))
}

// fieldsOf is the function of the same name, once for each type.
func (d *decoder) fieldsOf(t reflect.Type) []field {
	if d.fields == nil {
		d.fields = map[reflect.Type][]field{}
	}
	fields, ok := d.fields[t]
	if !ok {
		fields = fieldsOf(t)
		d.fields[t] = fields
	}
	return fields
}

// object decodes the object at off into a struct; also holds the names of keys that are others' business.
func (d *decoder) object(path string, off int, v reflect.Value, also []field) {
	if d.src[off] != '{' {
		d.mismatch("an object", path, off)
		return
	}
	if path == "ipam" {
		also = d.fieldsOf(reflect.TypeFor[IPAM]())
	}
	fields := d.fieldsOf(v.Type())
	ms := members(d.src, off)
	last := make(map[string]int, len(ms))
	for i, m := range ms {
		last[m.key] = i
	}
	for i, m := range ms {
		if last[m.key] != i { // repeats warns of it
			continue
		}
		f, ok := find(fields, m.key, last)
		if ok {
			d.otherCase(path, m, f.name)
			d.value(join(path, f.name), m.start, fieldByIndex(v, f.index))
			continue
		}
		if f, ok = find(also, m.key, last); ok {
			d.otherCase(path, m, f.name)
			continue
		}
		d.unknown(path, m, fields, also)
	}
}

// otherCase warns of a key that is not spelled as the field it is read into.
func (d *decoder) otherCase(path string, m member, name string) {
	if m.key != name {
		d.warnf(m.at, "key %.256q is taken for %q: write it in that case", join(path, m.key), name)
	}
}

// find looks a key up: by its exact name, else in another case unless the exact one is there too. The
// runtime's own keys (cni.dev/...) are never guessed at: one of them says what GC is to leave alive.
func find(fields []field, key string, exact map[string]int) (field, bool) {
	for _, f := range fields {
		if f.name == key {
			return f, true
		}
	}
	for _, f := range fields {
		if _, taken := exact[f.name]; !taken && strings.EqualFold(f.name, key) && !strings.HasPrefix(f.name, "cni.dev/") {
			return f, true
		}
	}
	return field{}, false
}

// unknown mentions a key that nobody reads, unless it stands in a section of somebody else's.
func (d *decoder) unknown(path string, m member, known ...[]field) {
	key := join(path, m.key)
	if d.quiet || d.foreign(path) || strings.HasPrefix(key, "cni.dev/") {
		return
	}
	if d.strict && len(d.errs) == maxErrors {
		d.more++
		return // the search for the nearest name costs time
	}
	if !d.strict && d.warnings > maxErrors {
		return
	}
	var names []string
	for _, f := range slices.Concat(known...) {
		names = append(names, f.name)
	}
	hint, near := "", nearest(m.key, names)
	if near != "" {
		hint = fmt.Sprintf("; did you mean %q?", near)
	}
	if !d.strict {
		d.warnf(m.at, "unknown key %.256q is ignored%s", key, hint)
		return
	}
	value := kindOf(m.value(d.src))
	if raw := string(m.value(d.src)); harmless(key, near, raw) { // SPEC wants it in this error
		value = raw
	}
	d.fail(CodeUnsupportedField, key, m.at, fmt.Errorf("unknown key, value %s%s", value, hint))
}

// foreign tells whether the object at a path is somebody else's.
func (d *decoder) foreign(path string) bool {
	section := path[:max(strings.IndexAny(path+".", ".["), 0)]
	if d.section != "" {
		return section != d.section
	}
	return section == "ipam" || section == "args" || section == "runtimeConfig"
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
	case kind == reflect.Map && v.Type().Key().Kind() == reflect.String && !textual(v.Type().Key()):
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
		d.mismatch("an array", path, off)
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
		d.mismatch("an object", path, off)
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
	target.Elem().Set(v)
	err := json.Unmarshal(raw, target.Interface())
	if err == nil {
		v.Set(target.Elem())
		return
	}
	var mismatch *json.UnmarshalTypeError
	var parse *net.ParseError
	switch {
	case errors.As(err, &mismatch):
		want := mismatch.Type
		if want == nil {
			want = v.Type()
		}
		d.mismatch(nameOf(want), path, off)
		return
	case errors.As(err, &parse): // net.IP, types.IPNet
		err = fmt.Errorf("invalid %s: %s", parse.Type, shown([]byte(parse.Text)))
	case Code(err) == CodeInternal && unaware(v.Type(), err):
		err = fmt.Errorf("invalid %v: %s", v.Type(), told(raw))
	}
	code := CodeDecodingFailure
	if own := Code(err); own != CodeInternal { // a type that knows better: it is of the right form, and wrong
		code = own
	}
	d.fail(code, path, off, err)
}

func join(path, key string) string {
	if path == "" || key == "" {
		return path + key
	}
	return path + "." + key
}
