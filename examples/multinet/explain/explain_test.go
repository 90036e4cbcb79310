package explain_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/examples/multinet/explain"
	"github.com/cnikit/cnikit/examples/multinet/kube"
	"github.com/cnikit/cnikit/netconf"
)

func Example() {
	lines := []explain.Line{
		{Interface: "eth0", Network: "pods", Plugins: []json.RawMessage{[]byte(`{"type":"bridge","bridge":"br0","ipam":{"type":"host-local"}}`)}},
		{Interface: "net1", Network: "ns1/lan", Plugins: []json.RawMessage{[]byte(`{"type":"macvlan","master":"br0"}`)}, Route: "10.1.0.1"},
	}
	if err := errors.Join(explain.Table(os.Stdout, lines), explain.Graph(os.Stdout, "ns1/web", lines)); err != nil {
		fmt.Println(err)
	}
	// Output:
	// INTERFACE  NETWORK  PLUGINS                     ASKS FOR  DEVICE  DEFAULT ROUTE
	// eth0       pods     bridge on br0 (host-local)  -         -       -
	// net1       ns1/lan  macvlan on br0              -         -       10.1.0.1
	// graph LR
	//     pod(["ns1/web"])
	//     pod -- "eth0" --> n0["pods<br/>bridge"]
	//     h0[("br0<br/>on the host")]
	//     n0 --> h0
	//     pod -- "net1<br/>default route: 10.1.0.1" --> n1["ns1/lan<br/>macvlan"]
	//     n1 --> h0
}

func TestRead(t *testing.T) {
	t.Parallel()
	m, err := explain.Read(
		[]byte("---\nkind: Pod\nmetadata: {name: a, uid: u}\n---\n--- \nkind: Pod\nmetadata: {name: b, namespace: ns}\n"),
		[]byte(`{"kind":"List","items":[{"kind":"NetworkAttachmentDefinition","metadata":{"name":"x"},"spec":{"config":"{\"a\":9007199254740993}"}},{"kind":"Node"}]}`),
	)
	if err != nil || len(m.Pods) != 2 || m.Pods[0].Namespace != "default" || m.Pods[0].UID != "u" || m.Pods[1].Namespace != "ns" || strings.Join(m.Others, ",") != "Node" {
		t.Fatalf("%+v, %v", m, err)
	}
	d, err := m.Definition(t.Context(), "default", "x")
	if err != nil || d.Config != `{"a":9007199254740993}` {
		t.Fatalf("%+v, %v", d, err)
	}
	if _, err := m.Definition(t.Context(), "n", "x"); !errors.Is(err, kube.ErrNotFound) || netconf.Code(err) != netconf.CodeInvalidNetworkConfig {
		t.Fatal(err)
	}
	if _, err := explain.Read([]byte("kind: [")); netconf.Code(err) != netconf.CodeDecodingFailure {
		t.Fatal(err)
	}
}

// FuzzGraph: no text of a manifest gets out of its label, or adds a line.
func FuzzGraph(f *testing.F) {
	f.Add(`n"]; x --> y`, "a\nb", "#quot;<br/>")
	f.Fuzz(func(t *testing.T, network, asks, master string) {
		config, err := json.Marshal(map[string]string{"type": "macvlan", "master": master})
		if err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		line := explain.Line{Interface: "net1", Network: network, Asks: []string{asks}, Device: asks, Plugins: []json.RawMessage{config}}
		if err := errors.Join(explain.Graph(&b, network, []explain.Line{line}), explain.Table(&b, []explain.Line{line})); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
		if table := lines[len(lines)-2]; !strings.HasPrefix(table, "INTERFACE") {
			t.Fatalf("the table is not two lines: %q", lines)
		}
		for _, l := range lines[:len(lines)-2] {
			if n := strings.Count(l, `"`); n%2 != 0 || n > 4 {
				t.Fatalf("%d quotes in %q", n, l)
			}
		}
	})
}
