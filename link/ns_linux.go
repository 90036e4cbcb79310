package link

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync"

	"github.com/cnikit/cnikit/internal/ownns"
	"github.com/cnikit/cnikit/netconf"
	"github.com/containernetworking/plugins/pkg/ns"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// NS is an open network namespace. It stays alive as long as it is open, whatever becomes of its path.
// All methods may be called from several goroutines at once.
type NS struct {
	path     string
	fd       int
	dev, ino uint64
	handle   *netlink.Handle

	mu     sync.Mutex
	worker *worker // nil until Do needs it, or the handle of a call's container
	closed bool
}

// Open opens the namespace at a path: /run/netns/NAME, /proc/PID/ns/net. For a path that is empty,
// missing, a stale plain file or anything else that is no network namespace the error is one for which
// [Gone] is true.
func Open(path string) (*NS, error) {
	n, err := open(path)
	if err == nil {
		n.rest()
	}
	return n, err
}

// open is Open, with the worker that has opened the handle, if it took one.
func open(path string) (*NS, error) {
	fail := func(err error) (*NS, error) { return nil, &Error{Op: "open namespace", Name: path, Err: err} }
	if path == "" {
		return fail(fmt.Errorf("%w: the path is empty", errNoNamespace))
	}
	// What it is comes before opening it: to open a FIFO blocks, to open a device acts.
	var st unix.Statfs_t
	switch err := ignoringEINTR(func() error { return unix.Statfs(path, &st) }); {
	case err == unix.ENOTDIR, err == unix.ELOOP, err == unix.ENAMETOOLONG, err == unix.EINVAL: // EINVAL: a NUL in it
		return fail(fmt.Errorf("%w: %w", errNoNamespace, err))
	case err != nil:
		return fail(err)
	case st.Type != unix.NSFS_MAGIC:
		return fail(fmt.Errorf("%w (a file that a namespace was mounted on before, perhaps)", errNoNamespace))
	}
	var fd int
	err := ignoringEINTR(func() (err error) {
		fd, err = unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return fail(err)
	}
	return adopt(fd, path)
}

// Current opens the namespace that the calling thread is in, which is the process's own, "the host",
// unless the caller has changed it.
func Current() (*NS, error) {
	fd, err := ownns.Open()
	if err != nil { // for who may not change the network
		return Open(ownns.Path)
	}
	return adopt(fd, ownns.Path)
}

// FromNS opens the namespace that an upstream ns.NetNS stands for; each is closed on its own.
func FromNS(n ns.NetNS) (*NS, error) {
	fd, err := unix.FcntlInt(n.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, &Error{Op: "open namespace", Name: n.Path(), Err: err}
	}
	own, err := adopt(fd, n.Path())
	if err == nil {
		own.rest()
	}
	return own, err
}

// adopt makes a namespace of an open file, which is closed if it is none.
func adopt(fd int, path string) (*NS, error) {
	n := &NS{path: path, fd: fd}
	err := n.prepare()
	if err != nil {
		n.rest()
		_ = unix.Close(fd) // nothing was written to it
		return nil, &Error{Op: "open namespace", Name: path, Err: err}
	}
	return n, nil
}

func (n *NS) prepare() error {
	if is, err := ownns.IsNet(n.fd); err != nil || !is {
		return fmt.Errorf("%w: a namespace of another kind", errNoNamespace)
	}
	var st unix.Stat_t
	if err := ignoringEINTR(func() error { return unix.Fstat(n.fd, &st) }); err != nil {
		return err
	}
	n.dev, n.ino = uint64(st.Dev), st.Ino
	// A socket keeps the namespace that its thread was in when it was opened.
	open := func() (err error) {
		n.handle, err = netlink.NewHandle(unix.NETLINK_ROUTE)
		return err
	}
	if n.here() {
		return open()
	}
	return n.inside(open)
}

// here tells whether the calling thread is in the namespace; the answer holds only as long as the
// goroutine stays on its thread, which only a thread that nobody moves makes sure.
func (n *NS) here() bool {
	dev, ino, err := ownns.Stat()
	return err == nil && dev == n.dev && ino == n.ino
}

// Handle is a netlink handle whose NETLINK_ROUTE socket lives in the namespace. It needs no thread
// there, and ends with Close.
func (n *NS) Handle() *netlink.Handle { return n.handle }

// Path is the path that the namespace was opened by, as it was given.
func (n *NS) Path() string { return n.path }

// Fd is the open file of the namespace, for netlink.NsFd; it is valid until Close.
func (n *NS) Fd() int { return n.fd }

// Is tells whether both are the same namespace, by whatever paths they were opened.
func (n *NS) Is(other *NS) bool { return n.dev == other.dev && n.ino == other.ino }

// Close ends the handle and the worker. Again it does nothing.
func (n *NS) Close() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil
	}
	n.closed = true
	n.dismiss()
	n.handle.Close()
	if err := unix.Close(n.fd); err != nil {
		return &Error{Op: "close namespace", Name: n.path, Err: err}
	}
	return nil
}

// rest ends the worker until Do needs one again: who has a thousand namespaces open has no thousand threads.
func (n *NS) rest() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.dismiss()
}

func (n *NS) dismiss() {
	if n.worker != nil {
		close(n.worker.quit)
		n.worker = nil
	}
}

// Do runs f in the namespace: for what has no handle, as files below /proc/sys/net and raw sockets. f
// must not start goroutines that rely on the namespace: they run outside. A panic of f is the caller's
// panic. Closures run one after the other, on a thread that is started at the first one and ends with
// Close; where the caller's thread is in the namespace already (the host's; inside another Do) f
// runs right there.
func (n *NS) Do(f func() error) error {
	runtime.LockOSThread()
	if n.here() {
		defer runtime.UnlockOSThread()
		return f()
	}
	runtime.UnlockOSThread()
	return n.inside(f)
}

// inside runs f in the worker.
func (n *NS) inside(f func() error) error {
	c := call{f: f, done: make(chan outcome, 1)}
	for sent := false; !sent; {
		w, err := n.start()
		if err != nil {
			return err
		}
		select {
		case w.calls <- c:
			sent = true
		case <-w.ended: // by Close, or by the closure before
		}
	}
	out := <-c.done
	if out.panic != nil {
		panic(out.panic)
	}
	return out.err
}

// worker is a goroutine on a thread in the namespace.
type worker struct {
	calls chan call
	quit  chan struct{} // closed by Close
	ended chan struct{} // closed when it takes no more calls
}

type call struct {
	f    func() error
	done chan outcome
}

type outcome struct {
	err   error
	panic any
}

// start returns the worker, started at the first need, or anew if a closure ended its goroutine.
func (n *NS) start() (*worker, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return nil, &Error{Op: "enter namespace", Name: n.path, Err: os.ErrClosed}
	}
	if n.worker != nil {
		select {
		case <-n.worker.ended:
		default:
			return n.worker, nil
		}
	}
	w := &worker{calls: make(chan call), quit: make(chan struct{}), ended: make(chan struct{})}
	n.worker = w
	fd, entered := n.fd, make(chan error, 1)
	onThread(func() {
		defer close(w.ended)
		err := unix.Setns(fd, unix.CLONE_NEWNET)
		entered <- err
		if err == nil {
			w.serve()
		}
	})
	if err := <-entered; err != nil { // the file may be closed from now on
		return nil, &Error{Op: "enter namespace", Name: n.path, Err: err}
	}
	return w, nil
}

func (w *worker) serve() {
	for {
		select {
		case c := <-w.calls:
			c.run()
		case <-w.quit:
			return
		}
	}
}

// run answers in every case: also when f panics, or ends the goroutine (t.FailNow does).
func (c call) run() {
	out := outcome{err: errors.New("the function ended its goroutine")}
	returned := false
	defer func() {
		if !returned {
			if v := recover(); v != nil {
				out.panic = &workerPanic{Value: v, Stack: debug.Stack()}
			}
		}
		c.done <- out
	}()
	out.err = c.f()
	returned = true
}

// workerPanic carries a panic from the worker's goroutine to the caller's, whose own stack does not
// show where it happened.
type workerPanic struct {
	Value any
	Stack []byte
}

func (p *workerPanic) Error() string {
	return fmt.Sprintf("%v\n\nin the namespace's worker:\n%s", p.Value, p.Stack)
}

// Unwrap returns the value that the closure panicked with, if it is an error.
func (p *workerPanic) Unwrap() error {
	err, _ := p.Value.(error)
	return err
}

// onThread runs f in a goroutine on a thread that ends with it: whatever namespace f leaves it in is
// never seen by other goroutines. It is not the main thread, which cannot end and whose namespace
// /proc/self/ns/net shows.
func onThread(f func()) {
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() != unix.Getpid() {
			f()
			return
		}
		locked := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			close(locked)
			f()
		}()
		<-locked // until then the main thread is held here, so the other one is not it
		runtime.UnlockOSThread()
	}()
}

func ignoringEINTR(f func() error) error {
	for {
		if err := f(); err != unix.EINTR {
			return err
		}
	}
}

// localKey keeps a namespace for the call, by its path; the host's is "".
type localKey string

// Container opens the namespace of a call, which is kept for the call, with the thread that has entered it for Do, and
// shared by its steps. Where it is
// gone, the error is one for which [Gone] is true and has code 7. Not code 3, which tells the runtime that
// no DEL is needed: that only skel can say, before any work; a step before this one may have taken a
// lease.
func Container(req *netconf.Request) (*NS, error) {
	n, err := netconf.Local(req, localKey("container "+req.Netns), func() (*NS, error) { return open(req.Netns) })
	if Gone(err) {
		return nil, netconf.Errorf(netconf.CodeInvalidNetworkConfig, "CNI_NETNS: %w", err)
	}
	return n, err
}

// Host opens the namespace of the process, kept for the call and shared by its steps.
func Host(req *netconf.Request) (*NS, error) {
	return netconf.Local(req, localKey("host"), Current)
}
