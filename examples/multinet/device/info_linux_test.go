package device_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cnikit/cnikit/examples/multinet/device"
	"github.com/cnikit/cnikit/netconf"
)

const info = `{"type":"pci","version":"1.1.0","pci":{"pci-address":"0000:01:00.1"},"vendor":9007199254740993}`

// plugin writes a device plugin's file.
func plugin(t *testing.T, f device.Files, name, text string) {
	t.Helper()
	dir := filepath.Join(f.Dir, "dp")
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

// TestInfoFile is not parallel: the umask is the process's.
func TestInfoFile(t *testing.T) {
	f := device.Files{Dir: filepath.Join(t.TempDir(), "run", "devinfo")}
	plugin(t, f, "vendor.example-nic-a-b-device.json", info)
	path := f.Path("container1", "net1")

	old := syscall.Umask(0o077)
	err := f.Copy(t.Context(), "vendor.example/nic", "a/b", path)
	syscall.Umask(old)
	if err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{filepath.Dir(path): os.ModeDir | 0o755, path: 0o644} {
		if is, err := os.Stat(name); err != nil || is.Mode() != mode {
			t.Errorf("%s: %v, %v; expected %v", name, is.Mode(), err, mode)
		}
	}
	if got, err := f.Load(path); err != nil || string(got) != info {
		t.Fatalf("%s, %v", got, err)
	}
	if err := errors.Join(f.Copy(t.Context(), "vendor.example/nic", "a/b", path), f.Remove(t.Context(), path), f.Remove(t.Context(), path)); err != nil {
		t.Fatalf("a second copy, and two removals: %v", err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 0 {
		t.Fatalf("left: %v, %v", left, err)
	}
	if got, err := f.Load(path); err != nil || got != nil {
		t.Fatalf("of no file: %s, %v", got, err)
	}
	if left, err := os.ReadDir(filepath.Join(f.Dir, "dp")); err != nil || len(left) != 1 {
		t.Fatalf("the device plugin's own file is not ours to remove: %v, %v", left, err)
	}
}

func TestNoInfoFile(t *testing.T) {
	t.Parallel()
	f := device.Files{Dir: t.TempDir()}
	if err := f.Copy(t.Context(), "a/nic", "1", f.Path("c", "net1")); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(f.Dir); err != nil || len(left) != 0 {
		t.Fatalf("made for nothing: %v, %v", left, err)
	}
}

func TestBadInfoFile(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"empty": "", "cut off": info[:20], "a list": "[]", "null": "null", "too long": `{"a":"` + strings.Repeat("x", 64<<10) + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := device.Files{Dir: t.TempDir()}
			plugin(t, f, "a-nic-1-device.json", text)
			if err := f.Copy(t.Context(), "a/nic", "1", f.Path("c", "net1")); netconf.Code(err) != netconf.CodeInvalidNetworkConfig {
				t.Fatalf("%v (code %d)", err, netconf.Code(err))
			}
		})
	}
}

func TestRemoveStaysInItsFolder(t *testing.T) {
	t.Parallel()
	f := device.Files{Dir: t.TempDir()}
	plugin(t, f, "a-nic-1-device.json", info)
	victim := filepath.Join(f.Dir, "dp", "a-nic-1-device.json")
	for _, path := range []string{victim, filepath.Join(f.Dir, "cni") + "/../dp/a-nic-1-device.json", ""} {
		if err := f.Remove(t.Context(), path); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(victim); err != nil {
		t.Fatal(err)
	}
}

// TestInfoFileFaults breaks off at each change: there is the whole file or none, and no rest.
func TestInfoFileFaults(t *testing.T) {
	t.Parallel()
	f := device.Files{Dir: t.TempDir()}
	plugin(t, f, "a-nic-1-device.json", info)
	path := f.Path("c", "net1")
	broken := errors.New("broken off")
	at := 1
	for ; ; at++ {
		calls := 0
		ctx := netconf.WithFault(t.Context(), func(context.Context, string) error {
			if calls++; calls == at {
				return broken
			}
			return nil
		})
		err := f.Copy(ctx, "a/nic", "1", path)
		if err == nil {
			break
		}
		if !errors.Is(err, broken) {
			t.Fatal(err)
		}
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("broken off at change %d: %v", at, err)
		}
	}
	if at != 3 { // the folder, the file
		t.Fatalf("%d changes", at-1)
	}
}
