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
	"github.com/cnikit/cnikit/skel/skeltest"
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

// A DEL that has put everything back does not fail because the folder is full or read-only, where it would fail for ever.
func TestForgetOnAFullDisk(t *testing.T) {
	skeltest.NeedRoot(t)
	for name, read := range map[string]bool{"full": false, "read-only": true} {
		for _, command := range []netconf.Command{netconf.Del, netconf.GC} {
			h := newStore(t)
			mount(t, h.Dir, "size=16k")
			add := h.open(t, one("c1"), netconf.Add)
			save(t, add, "mtu", "1")
			save(t, add, "sysctl", "2")
			save(t, add, "other", "3")
			if fill(t, h.Dir); read {
				remount(t, h.Dir, "ro")
			}
			for range 3 { // as a runtime that does not give up, whose DEL does not come to its end
				h.warnings = nil
				del := h.open(t, one("c1"), command)
				for _, key := range []string{"mtu", "sysctl"} {
					if err := del.Forget(key); err != nil {
						t.Errorf("%s, %s: forget %s: %v", name, command, key, err)
					}
					wantEntry(t, del, key, "")
				}
				wantEntry(t, del, "other", "3")
				if len(h.warnings) != 1 || !strings.Contains(h.warnings[0], "test:net:c1:eth0.state") {
					t.Errorf("%s, %s: warnings %q, expected one", name, command, h.warnings)
				}
				wantEntry(t, h.open(t, one("c1"), netconf.Check), "mtu", "1")
			}
			if err := add.Forget("mtu"); netconf.Code(err) != netconf.CodeBadStore {
				t.Errorf("%s: on ADD: %v", name, err)
			}
			if read {
				remount(t, h.Dir, "rw")
			}
			if err := h.open(t, one("c1"), command).Remove(); err != nil { // on the full disk
				t.Error(err)
			}
			wantFiles(t, h, "fill")
		}
	}
}
