package hostlocal_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cnikit/cnikit/internal/testbin"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// holder is a process that holds the lock of a store.
func holder(t *testing.T, dir string) *exec.Cmd {
	t.Helper()
	lock := filepath.Join(dir, "net", "lock")
	if err := os.MkdirAll(filepath.Dir(lock), 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = []string{asHolder + "=" + lock}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stdin.Close() }) // it ends, or has ended
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "held <nil>\n" {
		t.Fatalf("%q, %v", line, err)
	}
	return cmd
}

// A call waits for the lock until its time is over, and says that it may be tried again; nothing of it is left, and the
// lock that it waited for is not kept. A holder that is killed holds nothing.
func TestLock(t *testing.T) {
	t.Parallel()
	in := call{dir: t.TempDir()}
	cmd := holder(t, in.dir)
	for i, verb := range []netconf.Command{netconf.Add, netconf.Del, netconf.Check, netconf.Status} {
		in.verb = verb
		ctx, cancel := context.WithCancel(t.Context())
		req, done := in.request(t), make(chan error, 1)
		go func() { _, err := plugin().Call(ctx, req); done <- err }()
		// Those before it wait on, to give the lock back.
		skeltest.Eventually(t, "the call waits for the lock", func() bool { return waiting(t, filepath.Join(in.dir, "net", "lock")) > i })
		cancel()
		err := <-done
		if netconf.Code(err) != netconf.CodeTryAgainLater || !strings.Contains(err.Error(), "is locked") {
			t.Errorf("%s: code %d: %v", verb, netconf.Code(err), err)
		}
		if verb == netconf.Add && !netconf.IsUnchanged(err) {
			t.Errorf("%v: expected that nothing is to be undone", err)
		}
	}
	has(t, in.dir)
	served := make(chan error, 1)
	req := call{verb: netconf.Add, id: "waiting", dir: in.dir}.request(t)
	go func() {
		_, err := plugin().Call(context.WithoutCancel(t.Context()), req)
		served <- err
	}()
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
	if in.id = "after"; in.add(t) == "" {
		t.Error("no address")
	}
	_ = cmd.Wait() // killed
}

// waited tells whether somebody waits for the lock on a file.
func waited(t *testing.T, path string) bool { t.Helper(); return waiting(t, path) > 0 }

// waiting is how many wait for the lock on a file.
func waiting(t *testing.T, path string) (n int) {
	t.Helper()
	var st syscall.Stat_t
	locks, err := os.ReadFile("/proc/locks")
	if err = errors.Join(err, syscall.Stat(path, &st)); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(locks)) {
		if strings.Contains(line, "-> FLOCK") && strings.Contains(line, fmt.Sprintf(":%d ", st.Ino)) {
			n++
		}
	}
	return n
}

// The folder of the store is removed while a call waits for its lock: it takes the lock of the new one.
func TestLockOfAFolderThatIsRemoved(t *testing.T) {
	t.Parallel()
	in := call{dir: t.TempDir()}
	cmd := holder(t, in.dir)
	waiting := make(chan error, 1)
	req := call{verb: netconf.Add, dir: in.dir}.request(t)
	go func() {
		_, err := plugin().Call(context.WithoutCancel(t.Context()), req)
		waiting <- err
	}()
	skeltest.Eventually(t, "the call waits for the lock", func() bool { return waited(t, filepath.Join(in.dir, "net", "lock")) })
	if err := os.RemoveAll(filepath.Join(in.dir, "net")); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-waiting; err != nil {
		t.Fatal(err)
	}
	has(t, in.dir, "10.0.0.2 c1 eth0")
	_ = cmd.Wait() // killed
}

// The folder is removed while a call waits for its lock, and made again by somebody who holds the new lock: who has got the
// old one then has none, and waits for the new.
func TestLockOfAFolderThatIsMadeAgain(t *testing.T) {
	t.Parallel()
	in := call{dir: t.TempDir()}
	lock := filepath.Join(in.dir, "net", "lock")
	old := holder(t, in.dir)
	done := make(chan error, 1)
	req := call{verb: netconf.Add, dir: in.dir}.request(t)
	go func() {
		_, err := plugin().Call(context.WithoutCancel(t.Context()), req)
		done <- err
	}()
	skeltest.Eventually(t, "the call waits for the lock", func() bool { return waited(t, lock) })
	if err := os.RemoveAll(filepath.Join(in.dir, "net")); err != nil {
		t.Fatal(err)
	}
	again := holder(t, in.dir)
	if err := old.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	skeltest.Eventually(t, "the call waits for the new lock, or has ended", func() bool { return waited(t, lock) || len(done) > 0 })
	if len(done) > 0 {
		t.Errorf("served with the old lock while another holds the new one: %q", store(t, in.dir))
	}
	has(t, in.dir)
	if err := again.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	has(t, in.dir, "10.0.0.2 c1 eth0")
	_, _ = old.Wait(), again.Wait() // killed
}

// Things in the place of the store's files: none makes a call wait for ever, and none is taken for a lease.
func TestOddFiles(t *testing.T) {
	t.Parallel()
	fifo := func(path string) error { return syscall.Mkfifo(path, 0o600) }
	linkTo := func(target string) func(string) error {
		return func(path string) error { return os.Symlink(target, path) }
	}
	for _, c := range []struct {
		name, file string
		make       func(path string) error
		code       uint // of an ADD
	}{
		{"the lock is a FIFO", "lock", fifo, netconf.CodeBadStore},
		{"the lock is a folder", "lock", func(path string) error { return os.Mkdir(path, 0o700) }, netconf.CodeBadStore},
		{"the lock is a link", "lock", linkTo("../elsewhere"), 0},
		{"the lock is a link to nowhere", "lock", linkTo("/none/lock"), netconf.CodeBadStore},
		{"the lock is a link to itself", "lock", linkTo("lock"), netconf.CodeBadStore},
		{"the last address is a FIFO", "last_reserved_ip.0", fifo, netconf.CodeBadStore},
		{"the index is a FIFO", "last_reserved_ip.cnikit-index", fifo, 0},
		{"the index is a folder", "last_reserved_ip.cnikit-index", func(path string) error { return os.Mkdir(path, 0o700) }, 0},
		{"the new lease is a FIFO", "last_reserved_ip.cnikit-new", fifo, 0},
		{"a lease is a FIFO", "10.0.0.2", fifo, 0},
		{"a lease is a link to nowhere", "10.0.0.2", linkTo("/none"), 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			in := call{dir: t.TempDir(), verb: netconf.Add}
			path := filepath.Join(in.dir, "net", c.file)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := c.make(path); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			for i := range 2 { // the second one with what the first has left
				in.id = fmt.Sprint("c", i)
				result, err := plugin().Call(ctx, in.request(t))
				if netconf.Code(err) != c.code || ctx.Err() != nil {
					t.Fatalf("code %d, %v", netconf.Code(err), err)
				}
				if err == nil && c.file == "10.0.0.2" && result.IPs[0].Address.IP.String() == c.file {
					t.Error("its address was given")
				}
			}
			if _, err := os.Lstat(path); err != nil && c.file != "last_reserved_ip.cnikit-new" {
				t.Error(err)
			}
			in.verb = netconf.Del
			if _, err := plugin().Call(ctx, in.request(t)); c.code == 0 && err != nil {
				t.Error(err)
			}
		})
	}
}

// Two hundred processes at once, ours and the reference plugin's, some of them killed in the middle of it: nothing twice,
// none fails, none waits for one that is dead, and after the DELs of all nothing is left.
func TestProcessesAtOnce(t *testing.T) {
	t.Parallel()
	programs := []string{program(t), testbin.Plugin(t, "host-local")}
	in := call{dir: t.TempDir(), config: config(`"subnet":"10.0.0.0/23"`)}
	var mu sync.Mutex
	seen := map[string]string{}
	all := func(verb netconf.Command, kill bool) {
		var wg sync.WaitGroup
		for i := range 200 {
			wg.Go(func() {
				c := in
				c.id, c.verb = fmt.Sprint("c", i), verb
				if kill && i%10 == 9 {
					killSoon(t, c, programs[i/10%2])
					return
				}
				got, err := c.reference(t, programs[i%2])
				if err != nil {
					t.Errorf("%s %s: %v", verb, c.id, err)
				}
				if verb != netconf.Add {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				if other, twice := seen[fmt.Sprint(got)]; twice {
					t.Errorf("%v for %s and %s", got, other, c.id)
				}
				seen[fmt.Sprint(got)] = c.id
			})
		}
		wg.Wait()
	}
	all(netconf.Add, true)
	if n := len(seen); n != 180 {
		t.Errorf("%d addresses", n)
	}
	for address, id := range seen {
		name, _, _ := strings.Cut(strings.Trim(address, "["), "/")
		if content, err := os.ReadFile(filepath.Join(in.dir, "net", name)); err != nil || string(content) != id+"\r\neth0" {
			t.Errorf("%s of %s: %q, %v", name, id, content, err)
		}
	}
	all(netconf.Del, false)
	in.id = "last"
	in.ok(t, netconf.Del) // an empty file, of a reference plugin that was killed, is freed by the next of ours
	has(t, in.dir)
}

// killSoon starts a call and kills it, at once or when it has its configuration.
func killSoon(t *testing.T, c call, program string) {
	req := c.request(t)
	cmd := exec.Command(program)
	cmd.Env = req.Env()
	stdin, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Error(err)
		return
	}
	_, writeErr := stdin.Write(req.Config)
	if err := errors.Join(writeErr, stdin.Close(), cmd.Process.Kill()); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait() // killed
}

// mounted is a folder on a small file system of its own.
func mounted(t *testing.T, options string) (dir string, remount func(flags uintptr)) {
	t.Helper()
	skeltest.NeedRoot(t)
	dir = t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, options); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir, func(flags uintptr) {
		if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|flags, options); err != nil {
			t.Fatal(err)
		}
	}
}

// A file system without room: an ADD that does not get through leaves nothing, whatever it was that did not fit, and a
// DEL works, with and without an index.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	for inodes := 3; inodes < 12; inodes++ { // the root, the folder, lock, ...
		dir, _ := mounted(t, fmt.Sprintf("size=24k,nr_inodes=%d", inodes))
		in := call{dir: dir, verb: netconf.Add}
		var given []string
		for i := range 5 {
			in.id = fmt.Sprint("c", i)
			got, err := in.serve(t)
			if err == nil {
				given = append(given, in.id)
			} else if netconf.Code(err) != netconf.CodeBadStore {
				t.Errorf("%d inodes: code %d, %v, %v", inodes, netconf.Code(err), got, err)
			}
			if n := len(store(t, dir)); n != len(given) {
				t.Errorf("%d inodes: %q: expected those of %q", inodes, store(t, dir), given)
			}
		}
		for _, id := range given {
			in.id = id
			in.ok(t, netconf.Del)
		}
		has(t, dir)
	}
}

// STATUS said that all was well, and the next ADD found the disk full. What it says is what an ADD finds, however much room
// there is, and it leaves nothing; nor does the index take the room of the leases.
func TestStatusOfAFullDisk(t *testing.T) {
	t.Parallel()
	const pages = 10
	var said []bool
	for free := range pages {
		dir, _ := mounted(t, fmt.Sprintf("size=%d", pages*os.Getpagesize()))
		write(t, filepath.Join(dir, "other"), strings.Repeat("x", (pages-free)*os.Getpagesize()))
		in := call{dir: dir, verb: netconf.Status}
		_, status := in.serve(t)
		if _, err := os.Lstat(filepath.Join(dir, "net", "last_reserved_ip.cnikit-new")); !os.IsNotExist(err) {
			t.Errorf("%d pages: left behind: %v", free, err)
		}
		in.verb = netconf.Add
		_, add := in.serve(t)
		said = append(said, status == nil)
		switch {
		case (status == nil) != (add == nil):
			t.Errorf("%d pages: STATUS %v, ADD %v", free, status, add)
		case status != nil && (netconf.Code(status) != netconf.CodePluginNotAvailable || !strings.Contains(status.Error(), dir) || netconf.Code(add) != netconf.CodeBadStore):
			t.Errorf("%d pages: STATUS code %d, %v, ADD code %d", free, netconf.Code(status), status, netconf.Code(add))
		}
		if err := os.Remove(filepath.Join(dir, "other")); err != nil {
			t.Fatal(err)
		}
		in.ok(t, netconf.Status)
	}
	if said[0] || !said[pages-1] {
		t.Errorf("ready by free pages: %v", said)
	}
}

// A read-only store: ADD and DEL are errors that name it, STATUS says so before; CHECK works.
func TestReadOnlyStore(t *testing.T) {
	t.Parallel()
	dir, remount := mounted(t, "size=1m")
	in := call{dir: dir}
	in.add(t)
	live := store(t, dir)
	remount(syscall.MS_RDONLY)
	in.ok(t, netconf.Check)
	in.fails(t, netconf.Del, netconf.CodeBadStore, dir)
	in.fails(t, netconf.Status, netconf.CodePluginNotAvailable, dir)
	in.id = "c2"
	in.fails(t, netconf.Add, netconf.CodeBadStore, dir)
	in.ok(t, netconf.Del) // has nothing to release
	has(t, dir, live...)
	remount(0)
	if a := in.add(t); a != "10.0.0.3" {
		t.Error(a)
	}
}
