package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"testing"
)

// The archive is what docker save writes: its parts name one another by their sums.
func TestArchiveHoldsTogether(t *testing.T) {
	t.Parallel()
	data, err := archive([]byte("program"))
	if err != nil {
		t.Fatal(err)
	}
	files := unpack(t, data)
	var manifest []struct {
		Config           string
		RepoTags, Layers []string
	}
	var config struct {
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	if err := json.Unmarshal(files["manifest.json"], &manifest); err != nil || len(manifest) != 1 {
		t.Fatalf("manifest %s: %v", files["manifest.json"], err)
	}
	m := manifest[0]
	if err := json.Unmarshal(files[m.Config], &config); err != nil {
		t.Fatalf("configuration %q: %v", m.Config, err)
	}
	if want := fmt.Sprintf("%x.json", sha256.Sum256(files[m.Config])); m.Config != want {
		t.Errorf("the configuration is named %q, its sum is %q", m.Config, want)
	}
	if len(m.RepoTags) != 1 || m.RepoTags[0] != Name || len(m.Layers) != 1 || len(config.RootFS.DiffIDs) != 1 {
		t.Fatalf("manifest %+v, configuration %+v", m, config)
	}
	layer := files[m.Layers[0]]
	if want := fmt.Sprintf("sha256:%x", sha256.Sum256(layer)); config.RootFS.DiffIDs[0] != want {
		t.Errorf("the layer is named %q, its sum is %q", config.RootFS.DiffIDs[0], want)
	}
	if program := unpack(t, layer); len(program) != 1 || string(program["pause"]) != "program" {
		t.Errorf("the layer holds %q", program)
	}
}

func unpack(t *testing.T, data []byte) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		header, err := r.Next()
		if err == io.EOF {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[header.Name] = content
	}
}
