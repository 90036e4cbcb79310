package skeltest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// coverRun puts an empty tmpfs over /run. A plugin's state is there more often than not, under a name that only the
// plugin knows: files that a test's ADD had left on the machine once made 46 requirements fail with "exists already".
// What is mounted below /run stays where it was (a guest has its TMPDIR and its results there), and so do TMPDIR, the
// working directory and what keep names.
func coverRun(keep ...string) error {
	kept, err := keptOfRun(keep)
	if err != nil {
		return err
	}
	old, err := unix.Open("/run", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %q: %w", "/run", err)
	}
	defer unix.Close(old)
	if err := unix.Mount("tmpfs", "/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755"); err != nil {
		return fmt.Errorf("mount a tmpfs on %q: %w", "/run", err)
	}
	for _, path := range kept {
		if err := bindFrom(old, path); err != nil {
			return fmt.Errorf("keep %q of the machine's /run: %w", path, err)
		}
	}
	return nil
}

// keptOfRun lists what stays of /run, by the path in it; none is inside of another.
func keptOfRun(keep []string) (kept []string, err error) {
	mounts, err := os.ReadFile("/proc/thread-self/mountinfo")
	if err != nil {
		return nil, err
	}
	all := append(slices.Clone(keep), os.TempDir())
	if dir, err := os.Getwd(); err == nil { // it may be gone: then there is none to keep
		all = append(all, dir)
	}
	for line := range strings.Lines(string(mounts)) {
		if fields := strings.Fields(line); len(fields) > 4 {
			all = append(all, strings.NewReplacer(`\040`, " ", `\011`, "\t", `\134`, `\`).Replace(fields[4]))
		}
	}
	for _, path := range all {
		if real, err := filepath.EvalSymlinks(path); err == nil { // a mount that another covers is not there
			path = real
		}
		in, below := strings.CutPrefix(path, "/run/")
		first, _, _ := strings.Cut(in, "/")
		if below && !slices.Contains([]string{"netns", "cni", "cnikit"}, first) {
			kept = append(kept, in)
		}
	}
	slices.Sort(kept)
	kept = slices.Compact(kept)
	return slices.DeleteFunc(slices.Clone(kept), func(inner string) bool {
		return slices.ContainsFunc(kept, func(outer string) bool { return strings.HasPrefix(inner, outer+"/") })
	}), nil
}

// bindFrom mounts a path of the folder old, with what is mounted below it, at the same path of /run.
func bindFrom(old int, path string) error {
	fd, err := unix.Openat(old, path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if errors.Is(err, unix.ENOENT) {
		return nil
	} else if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	to := filepath.Join("/run", path)
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		err = os.MkdirAll(to, 0o755)
	} else if err = os.MkdirAll(filepath.Dir(to), 0o755); err == nil {
		err = os.WriteFile(to, nil, 0o600)
	}
	if err != nil {
		return err
	}
	return unix.Mount(fmt.Sprintf("/proc/thread-self/fd/%d", fd), to, "", unix.MS_BIND|unix.MS_REC, "")
}
