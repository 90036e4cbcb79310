package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// root makes the host's file tree, with a tmpfs over it that takes the writes, our root. The host's folder that is
// shared is a parameter of user-mode Linux's kernel, which reaches the host's files by itself; in an emulated
// machine it is a device.
func root() (uml string, err error) {
	if err := mount("proc", "/proc", "proc", 0, ""); err != nil {
		return "", err
	}
	uml, early, stage := parameter("guest.share"), parameter("guest.early"), "/mnt"
	if uml == "" {
		early, stage = "/early", "/stage"
	}
	modules, err := filepath.Glob(filepath.Join(early, "*.ko"))
	if err != nil {
		return "", err
	}
	for _, name := range modules { // their names are sorted in the order they need
		if err := insert(name); err != nil {
			return "", err
		}
	}
	if err := mount("stage", stage, "tmpfs", 0, "mode=755"); err != nil {
		return "", err
	}
	lower, upper, work, merged := stage+"/lower", stage+"/upper", stage+"/work", stage+"/root"
	for _, dir := range []string{upper, work} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return "", err
		}
	}
	if uml != "" {
		err = mount("none", lower, "hostfs", unix.MS_RDONLY, "/")
	} else { // nothing changes on the host that a test could wait for: names and data may be kept
		err = mount("host", lower, "9p", unix.MS_RDONLY, "trans=virtio,version=9p2000.L,msize=512000,cache=loose")
	}
	if err != nil {
		return "", err
	}
	if err := mount("root", merged, "overlay", 0, "lowerdir="+lower+",upperdir="+upper+",workdir="+work); err != nil {
		return "", err
	}
	if err := os.Chdir(merged); err != nil {
		return "", err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return "", fmt.Errorf("move the root: %w", err)
	}
	if err := unix.Chroot("."); err != nil { // the kernel's threads share our root: they find modprobe
		return "", fmt.Errorf("change the root: %w", err)
	}
	return uml, os.Chdir("/")
}

// system mounts what programs expect, and prepares for modules that the kernel loads by itself.
func system(uml string) error {
	from, kind, data := "work", "9p", "trans=virtio,version=9p2000.L,msize=512000,cache=none"
	if uml != "" {
		from, kind, data = "none", "hostfs", uml
	}
	for _, m := range []struct{ from, dir, kind, data string }{
		{"proc", "/proc", "proc", ""},
		{"sysfs", "/sys", "sysfs", ""},
		{"cgroup2", "/sys/fs/cgroup", "cgroup2", ""},
		{"dev", "/dev", "devtmpfs", "mode=755"},
		{"devpts", "/dev/pts", "devpts", ""},
		{"shm", "/dev/shm", "tmpfs", "mode=1777"},
		{"run", "/run", "tmpfs", "mode=755"},
		{"tmp", "/run/tmp", "tmpfs", "mode=1777"}, // TMPDIR: /tmp shows the host's, where a program may lie
		{from, share, kind, data},
	} {
		if err := mount(m.from, m.dir, m.kind, 0, m.data); err != nil {
			return err
		}
	}
	for name, target := range map[string]string{"fd": "", "stdin": "/0", "stdout": "/1", "stderr": "/2"} {
		if err := os.Symlink("/proc/self/fd"+target, "/dev/"+name); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	modules, err := os.Readlink(filepath.Join(share, "modules"))
	if err != nil {
		return err
	}
	for _, dir := range []string{"/lib/modules", "/etc/modprobe.d", "/dev/net"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	if err := os.Symlink(modules, filepath.Join("/lib/modules", filepath.Base(modules))); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	// Loaded for a test's first link of the kind they would make one of their own: dummy0, bond0, ifb0 and ifb1.
	options := "options dummy numdummies=0\noptions bonding max_bonds=0\noptions ifb numifbs=0\n"
	if err := os.WriteFile("/etc/modprobe.d/cnikit-guest.conf", []byte(options), 0o644); err != nil {
		return err
	}
	// Opening it loads the module, which would make the file itself.
	if err := unix.Mknod("/dev/net/tun", unix.S_IFCHR|0o666, int(unix.Mkdev(10, 200))); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("make /dev/net/tun: %w", err)
	}
	// Loads IPv6, if it is a module: a namespace made before would not have it yet.
	if s, err := unix.Socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return fmt.Errorf("IPv6: %w", err)
	} else if err := unix.Close(s); err != nil {
		return err
	}
	return loUp()
}

// mount makes the folder if it is missing. What is mounted there already, by the kernel, is well.
func mount(from, dir, kind string, flags uintptr, data string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := unix.Mount(from, dir, kind, flags, data); err != nil && !errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("mount a %s on %s: %w", kind, dir, err)
	}
	return nil
}

// parameter is a word of the kernel's command line.
func parameter(key string) string {
	line, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return ""
	}
	for _, word := range strings.Fields(string(line)) {
		if value, ok := strings.CutPrefix(word, key+"="); ok {
			return value
		}
	}
	return ""
}

// insert loads a kernel module from a file.
func insert(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("load %s: %w", name, err)
	}
	return nil
}

func loUp() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("lo: %w", err)
	}
	defer unix.Close(s)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return fmt.Errorf("lo: %w", err)
	}
	lo.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, lo); err != nil {
		return fmt.Errorf("lo up: %w", err)
	}
	return nil
}
