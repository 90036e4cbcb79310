package state_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/state"
)

// mount puts a tmpfs over a folder, which it makes.
func mount(t *testing.T, dir, options string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
}

func remount(t *testing.T, dir, options string) {
	t.Helper()
	flags := uintptr(unix.MS_REMOUNT)
	if options == "ro" {
		flags |= unix.MS_RDONLY
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", flags, ""); err != nil {
		t.Fatal(err)
	}
}

// fill leaves no room in the folder's file system.
func fill(t *testing.T, dir string) {
	t.Helper()
	err := os.WriteFile(filepath.Join(dir, "fill"), make([]byte, 10<<20), 0o600)
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("fill the disk: %v", err)
	}
}

// saveForEver saves until it is killed; it says when it has begun.
func saveForEver(dir string) {
	r := state.Store{Dir: dir}.Open(context.Background(), one("c1"), netconf.Add)
	for i := 0; ; i++ {
		if err := r.Save("k", []byte(strings.Repeat(fmt.Sprint(i%10), 50_000))); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		if i < 3 {
			fmt.Println("saved")
		}
	}
}

// A writer that is killed at any moment leaves the old record or the new one, and what it left beside is taken away.
func TestKilledWriter(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	h := newStore(t)
	left := 0
	for range 30 {
		cmd := exec.CommandContext(t.Context(), self)
		cmd.Env = append(os.Environ(), "STATE_TEST_WRITER="+h.Dir)
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(out).ReadString('\n'); line != "saved\n" {
			t.Fatalf("%q, %v", line, err)
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // it was killed
		data, err := h.open(t, one("c1"), netconf.Check).Load("k")
		if err != nil || len(data) != 50_000 || strings.Trim(string(data), string(data[:1])) != "" {
			t.Fatalf("after a kill: %d bytes, %v", len(data), err)
		}
		if len(h.files(t)) == 2 {
			left++
		}
	}
	t.Logf("killed 30 times, %d times while it wrote", left)
	h.put(t, record+".new", "half")
	r := h.open(t, one("c1"), netconf.Add)
	save(t, r, "k", "v")
	wantFiles(t, h, record)
	h.put(t, record+".new", "half")
	if err := r.Remove(); err != nil {
		t.Error(err)
	}
	wantFiles(t, h)
}
