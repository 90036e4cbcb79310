package skel

import (
	"cmp"
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/cnikit/cnikit/netconf"
)

// key is a key of a plugin's configuration, as the help explains it.
type key struct {
	parts   []string // of its path in JSON: "ranges[]", "subnet"; "labels", "*"
	typ     reflect.Type
	words   string // what its value is
	more    string // of it: what the type itself says that it expects
	initial string // the default as JSON; "" where it is the type's zero, of which the doc tag may speak
	doc     string // the doc tag
	example string // the example tag, as JSON
}

func (k key) path() string { return strings.Join(k.parts, ".") }

// explain is the text of a key in the help.
func (k key) explain() string {
	text := k.words
	if k.doc != "" {
		text += ": " + k.doc
	}
	var more []string
	if k.more != "" {
		more = append(more, k.more)
	}
	if k.initial != "" {
		more = append(more, "default "+k.initial)
	}
	if len(more) > 0 {
		text += " (" + strings.Join(more, "; ") + ")"
	}
	return text
}

// keys lists the keys of the configuration with their explanations, those of embedded structs too.
func (c *core) keys() []key { return appendKeys(nil, c.defaults(), nil, nil) }

// appendKeys lists the keys of a struct, which holds the defaults, as netconf.Decode knows them: of two with the same
// name the outer one, so embedded structs come last. at is the path of the struct, within are the types that it is a part of.
func appendKeys(out []key, v reflect.Value, at []string, within []reflect.Type) []key {
	within = append(slices.Clip(within), v.Type())
	var embedded []reflect.Value
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		inner := filled(v.Field(i))
		path := append(slices.Clip(at), cmp.Or(name, f.Name))
		switch {
		case f.Tag.Get("json") == "-":
		case f.Anonymous && name == "" && inner.Kind() == reflect.Struct:
			// A nil pointer to an unexported struct cannot be set.
			if (f.IsExported() || f.Type.Kind() == reflect.Struct) && !slices.Contains(within, inner.Type()) {
				embedded = append(embedded, inner)
			}
		case f.IsExported() && !slices.ContainsFunc(out, func(k key) bool { return slices.Equal(k.parts, path) }):
			out = appendKey(out, f, v.Field(i), path, within)
		}
	}
	for _, inner := range embedded {
		out = appendKeys(out, inner, at, within)
	}
	return out
}

// appendKey lists the key of a field, and what is inside it.
func appendKey(out []key, f reflect.StructField, v reflect.Value, at []string, within []reflect.Type) []key {
	k := key{parts: at, typ: f.Type, doc: f.Tag.Get("doc"), initial: initial(v)}
	k.words, k.more = describe(f.Type)
	k.example = exampleOf(f.Tag.Get("example"), k.words)
	inner, list := filled(v), false
	for !own(inner.Type()) && (inner.Kind() == reflect.Slice || inner.Kind() == reflect.Array || inner.Kind() == reflect.Map) {
		at, list = slices.Clone(at), true
		if inner.Kind() == reflect.Map {
			at = append(at, "*")
		} else {
			at[len(at)-1] += "[]"
		}
		inner = filled(reflect.New(inner.Type().Elem()).Elem())
	}
	if inner.Type() == reflect.TypeFor[types.Route]() {
		inner = reflect.ValueOf(routeKeys{})
	}
	if inner.Kind() != reflect.Struct || own(inner.Type()) || slices.Contains(within, inner.Type()) {
		return append(out, k)
	}
	if k.initial = ""; k.doc != "" || list {
		out = append(out, k)
	}
	return appendKeys(out, inner, at, within)
}

// routeKeys are those of upstream's type of a route, which reads itself and tells no names.
type routeKeys struct {
	Dst      netconf.Prefix `json:"dst" doc:"the network that it leads to"`
	GW       netconf.Addr   `json:"gw" doc:"the router; default: the gateway of an address of its family"`
	MTU      int            `json:"mtu" doc:"in bytes; default: the interface's"`
	AdvMSS   int            `json:"advmss" doc:"the TCP segment size that is told to peers, in bytes"`
	Priority int            `json:"priority" doc:"the metric; the lowest of several routes counts"`
	Table    *int           `json:"table" doc:"the routing table; default: main"`
	Scope    *int           `json:"scope" doc:"0 global, 253 link, 254 host; default: global"`
}

// exampleOf is an example tag as JSON: what is no JSON is a string, and so is all where a string is expected; what is
// no list is the one element of it.
func exampleOf(tag, words string) string {
	element, list := strings.CutPrefix(words, "list of ")
	switch {
	case tag == "":
		return ""
	case list && tag[0] != '[':
		return "[" + exampleOf(tag, element) + "]"
	case json.Valid([]byte(tag)) && !strings.HasPrefix(words, "string"):
		return tag
	}
	return string(quoted(tag))
}

// filled is what a pointer points to, a new value where it is nil.
func filled(v reflect.Value) reflect.Value {
	for v.Kind() == reflect.Pointer {
		if v.IsNil() {
			v = reflect.New(v.Type().Elem())
		}
		v = v.Elem()
	}
	return v
}

// own tells whether a type reads JSON, or a text, by itself.
func own(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(reflect.TypeFor[json.Unmarshaler]()) || p.Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// describe says what the values of a type are, in JSON. What a type that reads them by itself expects it says by its method
// Expects (see netconf.Decode), or in the error about one that it does not take: "expected bridge, private or vepa". So an
// enumeration is listed in one place.
func describe(t reflect.Type) (words, more string) {
	if e, ok := reflect.Zero(t).Interface().(interface{ Expects() string }); ok && t.Kind() != reflect.Pointer {
		words, more, found := strings.Cut(e.Expects(), " such as ")
		if found {
			more = "such as " + more
		}
		return strings.TrimPrefix(strings.TrimPrefix(words, "a "), "an "), more
	}
	switch {
	case t == reflect.TypeFor[json.RawMessage]():
		return "anything", ""
	case t == reflect.TypeFor[types.Route]():
		return "object", ""
	case own(t):
		if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
			return "string", refusal(t)
		}
		return "value", refusal(t)
	}
	switch t.Kind() {
	case reflect.Bool:
		return "boolean", ""
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "integer", ""
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "integer ≥ 0", ""
	case reflect.Float32, reflect.Float64:
		return "number", ""
	case reflect.String:
		return "string", ""
	case reflect.Pointer:
		return describe(t.Elem())
	case reflect.Slice, reflect.Array:
		if t.Elem().Kind() == reflect.Uint8 {
			return "string in base64", ""
		}
		of, more := describe(t.Elem())
		return "list of " + of, more
	case reflect.Map:
		of, more := describe(t.Elem())
		return "object, each member " + of, more
	case reflect.Struct:
		return "object", ""
	}
	return "anything", ""
}

// refusal is what stands behind "expected" in a type's error about a value that nobody means; "" where there is no such error.
func refusal(t reflect.Type) string {
	value, req := reflect.New(t), &netconf.Request{Warn: func(string, ...any) {}}
	err := protect(req, "", func() error { return json.Unmarshal([]byte(`"?"`), value.Interface()) })
	if err == nil {
		return ""
	}
	_, expected, found := strings.Cut(err.Error(), "expected ")
	if !found {
		return ""
	}
	expected, _, _ = strings.Cut(expected, "; ")
	return "expected " + expected
}

// initial is a default as JSON, "" for a zero value: but for that of an enumeration, which has a name.
func initial(v reflect.Value) string {
	if _, texts := v.Interface().(encoding.TextMarshaler); v.IsZero() && (!texts || v.Kind() != reflect.String) {
		return ""
	}
	data, err := json.Marshal(v.Interface())
	if err != nil || string(data) == `""` || string(data) == "null" {
		return ""
	}
	return string(data)
}
