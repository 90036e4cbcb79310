package nat_test

import (
	"testing"
)

func TestPortLeadsIntoTheContainer(t *testing.T) {
	l := newLab(t)
	a := l.container(2)
	serve(t, a.NS, "tcp", 80, "a")
	if err := portMap("tcp:8080:80").Create(t.Context(), l.host, a.Owner, a.addrs); err != nil {
		t.Fatal(err)
	}
	answers(t, l.client, "tcp", "192.0.2.1:8080", "a 192.0.2.9")
}
