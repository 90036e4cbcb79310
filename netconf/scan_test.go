package netconf

import (
	"errors"
	"strings"
	"testing"
)

func TestLocate(t *testing.T) {
	t.Parallel()
	const text = `{"a":1, "b":{"c":[10,{"d":true}],"c.d":2},
"cni.dev/x":[5],"cni.dev":{"y":1},"dup":1,"dup":2,"":3,"e\u0066":4}`
	for path, want := range map[string]string{
		"": `{`, "a": "1", "b": "{", "b.c": "[", "b.c[0]": "10", "b.c[1]": "{", "b.c[1].d": "true", "b.c.d": "2",
		"cni.dev/x": "[5]", "cni.dev/x[0]": "5", "cni.dev.y": "1", "dup": `2,""`, "ef": "4}",
		"x": "-", "b.x": "-", "b.c[2]": "-", "b.c[-1]": "-", "b.c[": "-", "b.c[x]": "-", "b.c[]": "-", "b.c[0": "-", "a[0]": "-", "a.b": "-", "[0]": "-", ".": "-", "A": "1", "B.C": "[", "cni.dev/X": "-",
	} {
		off, ok := locate([]byte(text), path)
		if ok != (want != "-") || ok && text[off:min(off+len(want), len(text))] != want {
			t.Errorf("%q: %d (%v), expected %q", path, off, ok, want)
		}
	}
	for _, text := range []string{"", "{", "{}{}"} {
		if _, ok := locate([]byte(text), "a"); ok {
			t.Errorf("found in %q", text)
		}
	}
}

func TestPosition(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text              string
		off, line, column int
	}{
		{"", 0, 1, 1}, {"abc", 0, 1, 1}, {"abc", 2, 1, 3}, {"abc", 99, 1, 4},
		{"a\nb", 1, 1, 2}, {"a\nb", 2, 2, 1}, {"a\n\nb", 3, 3, 1}, {"é\r\nb", 4, 2, 1}, {"éb", 2, 1, 3},
	} {
		if line, column := position([]byte(c.text), c.off); line != c.line || column != c.column {
			t.Errorf("%q at %d: line %d, column %d", c.text, c.off, line, column)
		}
	}
}

func TestErrorAt(t *testing.T) {
	t.Parallel()
	text := []byte("{\n \"a\":[{\"b\":1}]}")
	if e := errorAt("op", text, 7, "a[0].b", errors.ErrUnsupported); e.Line != 2 || e.Column != 12 || !errors.Is(e, errors.ErrUnsupported) {
		t.Errorf("%+v", e)
	}
	for _, path := range []string{"", "a[1]", "x"} {
		if e := errorAt("op", text, 7, path, errors.ErrUnsupported); e.Line != 0 || e.Path != path {
			t.Errorf("%q: %+v", path, e)
		}
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	known := []string{"master", "mode", "mtu", "mac", "linkInContainer", "ipMasq", "x"}
	for name, want := range map[string]string{
		"mster": "master", "Master2": "master", "maters": "master", "linkincontainer": "linkInContainer", "linkInContaner": "linkInContainer",
		"ipMask": "ipMasq", "mod": "mode", "mdoe": "mode", "mut": "mtu", "mt": "mtu", "y": "", "": "", "foo": "", "mxyz": "", "bridge": "",
	} {
		if got := nearest(name, known); got != want {
			t.Errorf("%q: %q, expected %q", name, got, want)
		}
	}
}

// Places found one after the other, in any order, are those found each by itself.
func TestLinesFindPlacesInAnyOrder(t *testing.T) {
	t.Parallel()
	const text = "\na\n\nbcd\n\n"
	lines := Lines{Text: []byte(text)}
	for from := range len(text) + 2 {
		for off := range len(text) + 2 {
			lines.Place(from)
			line, column := lines.Place(off)
			before := text[:min(off, len(text))]
			if l, c := 1+strings.Count(before, "\n"), len(before)-strings.LastIndex(before, "\n"); l != line || c != column {
				t.Errorf("%d after %d: %d:%d, expected %d:%d", off, from, line, column, l, c)
			}
		}
	}
}

// A name that is known is no slip of another.
func TestAKnownNameIsNoSlip(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{"host-locall": "host-local", "statik": "static", "static": "", "dhcp": "", "": "", strings.Repeat("static", 1000): ""} {
		if got := Nearest(name, "host-local", "static", "statics"); got != want {
			t.Errorf("%.20q: %q, expected %q", name, got, want)
		}
	}
}
