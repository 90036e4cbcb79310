package filekey_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/internal/filekey"
)

func TestJoin(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 250)
	seen := map[string]bool{}
	for _, c := range []struct {
		parts []string
		want  string // the beginning
		plain bool
	}{
		{[]string{"lan", "c1", "eth0"}, "lan:c1:eth0", true},
		{[]string{"lan", strings.Repeat("c", 191), "eth0"}, "lan:ccc", true}, // 200 bytes
		{[]string{"lan", strings.Repeat("c", 192), "eth0"}, "lan:ccc", false},
		{[]string{long, "c1", "eth0"}, "xxx", false},
		{[]string{long, "c2", "eth0"}, "xxx", false},
	} {
		key := filekey.Join(c.parts...)
		parts, ok := filekey.Split(key, 3)
		if len(key) > 200 || seen[key] || !strings.HasPrefix(key, c.want) || ok != c.plain || ok && !slices.Equal(parts, c.parts) {
			t.Errorf("%q: %s, read as %q, %v", c.parts, key, parts, ok)
		}
		seen[key] = true
	}
	if parts, ok := filekey.Split("a:b", 3); ok {
		t.Errorf("%q", parts)
	}
}

func TestHashed(t *testing.T) {
	t.Parallel()
	a, b := filekey.Hashed("p", "a:b", "c"), filekey.Hashed("p", "a", "b:c")
	if a == b || !strings.HasPrefix(a, "p:") || len(a) != len("p:")+16 {
		t.Errorf("%s, %s", a, b)
	}
	if key := filekey.Hashed("", "../x"); strings.Contains(key, "/") || key[0] != ':' {
		t.Error(key)
	}
}
