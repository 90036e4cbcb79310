package skeltest

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// What a plugin keeps in a folder of /run, which nobody but it knows, is not written to the machine's.
func TestStateInRunDoesNotReachTheMachine(t *testing.T) {
	NeedRoot(t)
	mine := fmt.Sprintf("/run/plugin-%d", os.Getpid())
	if err := os.WriteFile(mine, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(fmt.Sprintf("/proc/%d/root%s", os.Getppid(), mine)); !os.IsNotExist(err) {
		t.Errorf("the process that started the tests sees %s: %v", mine, err)
	}
	if err := os.Remove(mine); err != nil {
		t.Fatal(err)
	}
}

// What is mounted below /run, and what is named, is there as before, once; all else is not.
func TestCoveredRunKeepsWhatTestsNeed(t *testing.T) {
	NeedRoot(t)
	write := func(path string) error {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		return os.WriteFile(path, nil, 0o600)
	}
	var there []string
	err := locked(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS); err != nil { // for this thread, which ends
			return err
		}
		if err := unix.Mount("tmpfs", "/run", "tmpfs", 0, ""); err != nil {
			return err
		}
		if err := write("/run/a b/lost"); err != nil {
			return err
		}
		if err := os.MkdirAll("/run/a b/mounted", 0o755); err != nil {
			return err
		}
		if err := unix.Mount("tmpfs", "/run/a b/mounted", "tmpfs", 0, ""); err != nil {
			return err
		}
		for _, path := range []string{"/run/a b/mounted/file", "/run/named/in/file", "/run/named-not", "/run/one", "/run/netns/ns", "/run/cnikit/state"} {
			if err := write(path); err != nil {
				return err
			}
		}
		if err := coverRun("/run/named", "/run/named/in", "/run/one", "/run/none", "/run/cnikit"); err != nil {
			return err
		}
		return filepath.WalkDir("/run", func(path string, entry os.DirEntry, err error) error {
			if err == nil && !entry.IsDir() {
				there = append(there, path)
			}
			return err
		})
	})
	if want := []string{"/run/a b/mounted/file", "/run/named/in/file", "/run/one"}; err != nil || !slices.Equal(there, want) {
		t.Errorf("%v, in /run there is %q, expected %q", err, there, want)
	}
}

// A program in /run, with the delegates beside it, is there on the hosts of the requirements too.
func TestPluginInRunIsFound(t *testing.T) {
	NeedRoot(t)
	const dir = "/run/plugins-of-a-test"
	target := func() Target {
		target := shTarget(t, "interface", "")
		// In each process that judges: Main has covered /run there, as Conform covers it for the command.
		if err := os.CopyFS(dir, os.DirFS(filepath.Dir(string(target.Plugin.(Binary))))); err != nil {
			t.Fatal(err)
		}
		target.Plugin = Binary(filepath.Join(dir, "sh-plugin"))
		return target
	}
	if o := judgedOf(t, target, "add/works"); o.Status != Pass {
		t.Errorf("%s %s", o.Status, o.Detail)
	}
}
