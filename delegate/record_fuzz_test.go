package delegate_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/types"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/netconf"
)

// Whatever stands in a record's file, no call panics, and a DEL takes it away or says why not, and then it is still there.
func FuzzRecord(f *testing.F) {
	for _, damage := range damages {
		if len(damage[0]) < 1000 {
			f.Add(damage[0])
		}
	}
	const first = `{"version":1,"network":"outer","containerID":"c1","ifname":"eth0","cniArgs":"A=1;B","attachments":[{"ifname":"x","network":{"cniVersion":"1.1.0","name":"n","plugins":[{"type":"a"},{"type":"b"}]},"args":{"K":"V"},"runtimeConfig":{"mac":"m"}}]}`
	f.Add(first)
	f.Add(first + "\n" + `{"ifname":"x","result":{"cniVersion":"1.1.0","interfaces":[{"name":"x"}]}}` + "\n" + `{"ifname":"x","gone":true}`)
	f.Add(first + "\n" + `{"ifname":"x","result":[1]}` + "\n\x00\n{")
	f.Fuzz(func(t *testing.T, text string) {
		s, r := &spy{}, records(t)
		plugins := s.plugins("a", "b")
		if err := os.Mkdir(r.Dir, 0o700); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(r.Dir, file)
		write(t, path, text, 0o600)
		if _, err := r.List(""); err != nil {
			t.Error(err)
		}
		_ = r.Check(t.Context(), plugins, attach(t)) // any error but a panic
		gc := bare(t)
		gc.Network.ValidAttachments = []types.GCAttachment{{ContainerID: "c1", IfName: "eth0"}}
		_ = r.GC(t.Context(), plugins, gc) // as above
		if _, err := r.Add(t.Context(), delegate.Set{Attachments: four(t, s).Attachments[:1], Plugins: plugins}, attach(t)); !netconf.IsUnchanged(err) {
			t.Errorf("%v: an ADD over a record", err)
		}
		if got := read(t, path); got != text {
			t.Error("it was changed")
		}
		s.said()
		err := r.Del(t.Context(), plugins, bare(t))
		_, statErr := os.Lstat(path)
		if (err == nil) != os.IsNotExist(statErr) {
			t.Errorf("%v, and the file: %v", err, statErr)
		}
		if strings.Contains(s.said(), "ADD") {
			t.Error("a DEL that adds")
		}
	})
}
