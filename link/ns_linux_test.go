package link_test

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/cnikit/cnikit/link"
	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/plugins/pkg/ns"
	"golang.org/x/sys/unix"
)

// Whatever the path is, the answer is an error that is Gone, at once, and without a side effect.
func TestOpenWhatIsNoNamespace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	stale, fifo, loop := filepath.Join(dir, "stale"), filepath.Join(dir, "fifo"), filepath.Join(dir, "loop")
	if err := errors.Join(os.WriteFile(stale, nil, 0o444), unix.Mkfifo(fifo, 0o600), os.Symlink(loop, loop)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"", stale, fifo, dir, filepath.Join(dir, "missing"), stale + "/x", "/dev/null", "/proc/self/status", "/proc/self/ns/uts", "/proc/999999999/ns/net", loop, strings.Repeat("x", 5000), "a\x00b"} {
		n, err := link.Open(path)
		if err == nil {
			t.Errorf("%q was opened", path)
			_ = n.Close() // the test has failed
			continue
		}
		if !link.Gone(err) {
			t.Errorf("%q: %v is not Gone", path, err)
		}
	}
}

// TestContainerGoneNeedsADEL: a step before may have taken a lease, so the code is never 3.
func TestContainerGoneNeedsADEL(t *testing.T) {
	t.Parallel()
	req := &netconf.Request{Command: netconf.Add, Netns: filepath.Join(t.TempDir(), "x")}
	prev, err := netconf.ParseResult([]byte(`{}`), "1.1.0")
	if err != nil {
		t.Fatal(err)
	}
	for _, req.Prev = range []*types100.Result{nil, prev} {
		_, err := link.Container(req)
		if netconf.Code(err) != netconf.CodeInvalidNetworkConfig || !link.Gone(err) || !strings.Contains(err.Error(), req.Netns) {
			t.Errorf("%v, code %d", err, netconf.Code(err))
		}
	}
}

func TestNS(t *testing.T) {
	a, b := skeltest.NewNS(t), skeltest.NewNS(t)
	host, na := spaces(t, a)
	_, nb := spaces(t, b)
	_, again := spaces(t, a)
	if na.Is(nb) || na.Is(host) || !na.Is(again) {
		t.Error("Is does not tell namespaces apart")
	}
	if na.Path() != a.Path {
		t.Errorf("path %q", na.Path())
	}
	a.Run("ip", "link", "add", "onlyina", "type", "bridge")
	if _, err := na.Handle().LinkByName("onlyina"); err != nil {
		t.Error(err)
	}
	if _, err := nb.Handle().LinkByName("onlyina"); !link.Gone(err) {
		t.Error(err)
	}
	n, before := 0, inside()
	for i, s := range []*link.NS{na, nb, host} {
		err := s.Do(func() error {
			n++
			_, err := net.InterfaceByName("onlyina")
			if (err == nil) != (i == 0) {
				t.Errorf("namespace %d: %v", i, err)
			}
			return syscall.EBADE
		})
		if err != syscall.EBADE || n != i+1 {
			t.Errorf("the function's error came back as %v", err)
		}
	}
	if inside() != before || hostHas(t, "onlyina") {
		t.Error("the caller's thread was moved")
	}
}

func inside() string {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	s, err := os.Readlink("/proc/thread-self/ns/net")
	if err != nil {
		return err.Error()
	}
	return s
}

// The namespace stays open when its path goes, and is closed once.
func TestNSWithoutItsPath(t *testing.T) {
	space := skeltest.NewNS(t)
	n, err := link.Open(space.Path)
	if err != nil {
		t.Fatal(err)
	}
	space.Remove()
	if err := n.Do(func() error { _, err := net.InterfaceByName("lo"); return err }); err != nil {
		t.Error(err)
	}
	if _, err := n.Handle().LinkByName("lo"); err != nil {
		t.Error(err)
	}
	for range 2 {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := n.Do(func() error { return nil }); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

// A panic in the namespace is the caller's, with the place where it happened; the next closure runs.
func TestNSDoPanic(t *testing.T) {
	space := skeltest.NewNS(t)
	_, n := spaces(t, space)
	func() {
		defer func() {
			v, _ := recover().(error)
			if v == nil || !errors.Is(v, syscall.EBADE) || !strings.Contains(v.Error(), "ns_linux_test.go") {
				t.Errorf("recovered %v", v)
			}
		}()
		_ = n.Do(func() error { panic(syscall.EBADE) }) // does not return
		t.Error("the panic was swallowed")
	}()
	if err := n.Do(func() error { runtime.Goexit(); return nil }); err == nil {
		t.Error("a closure that ended its goroutine is a success")
	}
	if err := n.Do(func() error { return n.Do(func() error { return nil }) }); err != nil {
		t.Errorf("Do inside Do: %v", err)
	}
}

func TestNSConcurrent(t *testing.T) {
	space := skeltest.NewNS(t)
	host, n := spaces(t, space)
	var all sync.WaitGroup
	want := ""
	if err := n.Do(func() error { want = inside(); return nil }); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		all.Go(func() {
			for range 20 {
				if err := n.Do(func() error {
					if got := inside(); got != want {
						t.Errorf("in %s, expected %s", got, want)
					}
					return nil
				}); err != nil {
					t.Error(err)
				}
				if _, err := n.Handle().LinkByName("lo"); err != nil {
					t.Error(err)
				}
				if err := host.Do(func() error {
					if inside() == want {
						t.Error("the host's closure runs in the container")
					}
					return nil
				}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}

func TestFromNS(t *testing.T) {
	space := skeltest.NewNS(t)
	upstream, err := ns.GetNS(space.Path)
	if err != nil {
		t.Fatal(err)
	}
	n, err := link.FromNS(upstream)
	if err != nil {
		t.Fatal(err)
	}
	if err := upstream.Close(); err != nil { // each is closed on its own
		t.Error(err)
	}
	_, same := spaces(t, space)
	if !n.Is(same) || n.Path() != space.Path {
		t.Errorf("path %q", n.Path())
	}
	if err := n.Close(); err != nil {
		t.Error(err)
	}
}

func TestSysctl(t *testing.T) {
	space := skeltest.NewNS(t)
	host, n := spaces(t, space)
	space.Run("ip", "link", "add", "a.b", "type", "bridge") // a name with a dot
	key := "net/ipv6/conf/a.b/accept_dad"
	before, err := n.ReadSysctl(key)
	if err != nil || before == "0" {
		t.Fatalf("%q, %v", before, err)
	}
	var ops []string
	ctx := netconf.WithFault(t.Context(), recording(&ops))
	for range 2 {
		if err := n.Sysctl(ctx, key, "0"); err != nil {
			t.Fatal(err)
		}
	}
	if len(ops) != 1 || ops[0] != "sysctl "+key+"=0" {
		t.Errorf("operations %q, expected one: the second write has nothing to change", ops)
	}
	if v, err := n.ReadSysctl(key); v != "0" || err != nil {
		t.Errorf("%q, %v", v, err)
	}
	if _, err := host.ReadSysctl(key); !link.Gone(err) {
		t.Errorf("on the host: %v", err)
	}
	if err := n.Sysctl(ctx, "net/ipv6/conf/none/accept_dad", "0"); !link.Gone(err) {
		t.Errorf("of a link that is not there: %v", err)
	}
	if err := n.Sysctl(ctx, "net/ipv4/ip_forward", "many"); netconf.Code(err) != netconf.CodeInvalidNetworkConfig {
		t.Errorf("a value that the kernel refuses: %v, code %d", err, netconf.Code(err))
	}
	for _, bad := range []string{"", "kernel/panic", "net", "net/core", "net/../kernel/panic", "net//x", "net/ipv4/./x", "/net/ipv4/ip_forward", "net/ipv4/"} {
		if err := n.Sysctl(ctx, bad, "0"); err == nil || netconf.Code(err) != netconf.CodeInvalidNetworkConfig {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// A value is read to its end: of a list of ports the kernel gives what fits into the first read, and no more.
func TestSysctlThatIsLong(t *testing.T) {
	_, n := spaces(t, skeltest.NewNS(t))
	var ports []string
	for port := 10000; port < 10600; port += 2 {
		ports = append(ports, strconv.Itoa(port))
	}
	const key = "net/ipv4/ip_local_reserved_ports"
	want := strings.Join(ports, ",")
	if err := n.Sysctl(t.Context(), key, want); err != nil {
		t.Fatal(err)
	}
	if have, err := n.ReadSysctl(key); err != nil || have != want {
		t.Errorf("%d bytes of %d, %v", len(have), len(want), err)
	}
}

// A call enters its container's namespace once: the thread that has opened the socket there reads the sysctls too. Who
// holds namespaces open, as a daemon may hold a thousand, has no thread in each.
func TestContainerIsEnteredOnce(t *testing.T) {
	space := skeltest.NewNS(t)
	_, n := spaces(t, space)
	if threads := n.Threads(); threads != 0 {
		t.Errorf("%d threads for an open namespace", threads)
	}
	req := &netconf.Request{Command: netconf.Add, Netns: space.Path}
	defer req.Close()
	c, err := link.Container(req)
	if err != nil {
		t.Fatal(err)
	}
	if threads := c.Threads(); threads != 1 {
		t.Errorf("%d threads for a call's namespace", threads)
	}
	thread := func() (tid int) {
		if err := c.Do(func() error { tid = syscall.Gettid(); return nil }); err != nil {
			t.Error(err)
		}
		return tid
	}
	if one, two := thread(), thread(); one != two {
		t.Errorf("threads %d and %d", one, two)
	}
}
