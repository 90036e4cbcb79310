// Package image makes the one container image that tests use, without a registry: an archive in the format
// of docker save, with a static Go program of our own as its only file. Every runtime can load it.
//
// The program (./pause) is what sandboxes wait with, and what containers answer and send TCP with.
package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/cnikit/cnikit/internal/testbin"
)

// Name is the image's name in the archive. No registry has it: a runtime that does not find it loaded fails.
const Name = "local.test/pause:1"

// Entrypoint is the program's path in the image.
const Entrypoint = "/pause"

// Program builds the program of the containers and returns its path: to be run outside of them, to dial.
func Program(t testing.TB) string {
	t.Helper()
	return filepath.Join(testbin.Tools(t, "internal/e2e", nil, "./image/pause"), "pause")
}

// Archive builds the program and writes the archive, into a folder of the test's; it returns its path.
func Archive(t testing.TB) string {
	t.Helper()
	content, err := os.ReadFile(Program(t))
	if err != nil {
		t.Fatal(err)
	}
	archive, err := archive(content)
	if err != nil {
		t.Fatalf("image: %v", err)
	}
	path := filepath.Join(t.TempDir(), "image.tar")
	if err := os.WriteFile(path, archive, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// file is an entry of a tar archive.
type file struct {
	name    string
	mode    int64
	content []byte
}

func archive(program []byte) ([]byte, error) {
	layer, err := pack(file{name: "pause", mode: 0o755, content: program})
	if err != nil {
		return nil, err
	}
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"config":       map[string]any{"Entrypoint": []string{Entrypoint}, "Env": []string{"PATH=/"}},
		"rootfs":       map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", sha256.Sum256(layer))}},
		"history":      []any{map[string]any{"created": "1970-01-01T00:00:00Z"}},
	})
	if err != nil {
		return nil, err
	}
	configName := fmt.Sprintf("%x.json", sha256.Sum256(config))
	manifest, err := json.Marshal([]any{map[string]any{"Config": configName, "RepoTags": []string{Name}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		return nil, err
	}
	return pack(
		file{name: "manifest.json", mode: 0o644, content: manifest},
		file{name: configName, mode: 0o644, content: config},
		file{name: "layer.tar", mode: 0o644, content: layer},
	)
}

func pack(files ...file) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, f := range files {
		if err := w.WriteHeader(&tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.content)), Typeflag: tar.TypeReg, Format: tar.FormatUSTAR}); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
