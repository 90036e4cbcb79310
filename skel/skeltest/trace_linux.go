package skeltest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// tracing says what is to be done to a program whose system calls are counted.
type tracing struct {
	kill int  // kill it before its n-th system call; 0: never
	all  bool // all that it has started too
}

// traced is what became of it.
type traced struct {
	calls  int // system calls of the program's threads, without its children's, and without those that change nothing
	exit   int // its exit status, -1 if it was killed
	killed bool
	before string // the call that it was killed before
	late   bool   // it, or what it had started, had to be killed when its time was over
}

// idle are the system calls that change nothing outside of the process: to be killed before one of them is to be killed
// before the next that is not. A program in Go begins with a hundred of them.
var idle = []uint64{
	sysMmap, unix.SYS_MUNMAP, unix.SYS_MPROTECT, unix.SYS_MADVISE, unix.SYS_BRK, unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK,
	unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK, unix.SYS_FUTEX, unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY, unix.SYS_NANOSLEEP,
	unix.SYS_GETTID, unix.SYS_GETPID, unix.SYS_TGKILL, unix.SYS_EPOLL_PWAIT, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_CREATE1, unix.SYS_FCNTL,
	unix.SYS_PRLIMIT64, unix.SYS_RSEQ, unix.SYS_SET_ROBUST_LIST, unix.SYS_SET_TID_ADDRESS, unix.SYS_GETRANDOM, unix.SYS_UNAME,
}

// names are those of the calls that plugins make most; others are told by their number.
var names = map[uint64]string{
	unix.SYS_SENDTO: "sendto", unix.SYS_RECVFROM: "recvfrom", unix.SYS_SENDMSG: "sendmsg", unix.SYS_RECVMSG: "recvmsg", unix.SYS_SOCKET: "socket",
	unix.SYS_BIND: "bind", unix.SYS_OPENAT: "openat", unix.SYS_CLOSE: "close", unix.SYS_READ: "read", unix.SYS_WRITE: "write", unix.SYS_SETNS: "setns",
	unix.SYS_UNLINKAT: "unlinkat", sysRename: "renameat", unix.SYS_MKDIRAT: "mkdirat", unix.SYS_FLOCK: "flock", unix.SYS_EXECVE: "execve",
	unix.SYS_CLONE: "clone", unix.SYS_CLONE3: "clone3", unix.SYS_WAIT4: "wait4", unix.SYS_WAITID: "waitid", unix.SYS_EXIT_GROUP: "exit_group",
	unix.SYS_PIPE2: "pipe2", unix.SYS_FSYNC: "fsync", unix.SYS_FTRUNCATE: "ftruncate", unix.SYS_GETDENTS64: "getdents64",
}

// process starts the program with a call, whose stdout and stderr go nowhere.
func (b *Bench) process(program Binary, call Call, attr *syscall.SysProcAttr) (*os.Process, error) {
	stdin, err := os.CreateTemp(b.TempDir(), "stdin")
	if err != nil {
		return nil, err
	}
	defer stdin.Close()
	if _, err := io.Copy(stdin, call.stdin(b)); err != nil {
		return nil, err
	}
	if _, err := stdin.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	defer null.Close()
	return os.StartProcess(string(program), []string{string(program)}, &os.ProcAttr{
		Env: slices.Clone(call.environ()), Files: []*os.File{stdin, null, null}, Sys: attr,
	})
}

// traced runs the program under ptrace, and waits for it and for all that it has started, which must end within the
// limit of a call. strace counts the calls of
// each thread by itself, so that none of a thread that a program in Go has just made can be met.
func (b *Bench) traced(program Binary, call Call, what tracing) (t traced) {
	b.Helper()
	err := locked(func() error { // all requests of ptrace come from one thread
		p := tracer{tracing: what, traced: traced{exit: -1}, ours: map[int]bool{}, inside: map[int]bool{}}
		process, err := b.process(program, call, &syscall.SysProcAttr{Ptrace: true})
		if err != nil {
			return err
		}
		p.pid = process.Pid
		if err := process.Release(); err != nil {
			return err
		}
		end := time.AfterFunc(b.Limit, p.tooLate)
		defer end.Stop()
		err = p.loop()
		p.mu.Lock()
		defer p.mu.Unlock()
		t = p.traced
		return err
	})
	switch {
	case err != nil:
		panic(fmt.Errorf("trace %s: %w", program, err)) // which is not the plugin's: nothing is judged
	case t.late:
		b.Fatalf("%s, with what it had started, did not end within %v%s", call.Command, b.Limit, t.when())
	}
	return t
}

// when says where it was killed.
func (t traced) when() string {
	if !t.killed {
		return ""
	}
	return " after it was killed before " + t.before
}

type tracer struct {
	tracing
	traced
	pid    int          // the program's
	inside map[int]bool // threads in a system call

	mu   sync.Mutex   // for tooLate
	ours map[int]bool // threads and processes that live, and whether they are the program's threads
	over bool         // the time is
}

const traceOptions = unix.PTRACE_O_TRACESYSGOOD | unix.PTRACE_O_TRACECLONE | unix.PTRACE_O_TRACEFORK | unix.PTRACE_O_TRACEVFORK |
	unix.PTRACE_O_TRACEEXEC | unix.PTRACE_O_EXITKILL

// loop follows the program until it and its children have ended.
func (p *tracer) loop() error {
	for {
		var status unix.WaitStatus
		tid, err := unix.Wait4(-1, &status, unix.WALL|unix.WNOTHREAD, nil)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.ECHILD):
			return nil
		case err != nil:
			return fmt.Errorf("wait4: %w", err)
		}
		if !status.Stopped() {
			if tid == p.pid && status.Exited() {
				p.exit = status.ExitStatus()
			}
			p.gone(tid)
			continue
		}
		if err := p.stopped(tid, status); err != nil && !errors.Is(err, unix.ESRCH) { // it was killed meanwhile
			return err
		}
	}
}

// stopped looks why a thread has stopped, and lets it go on.
func (p *tracer) stopped(tid int, status unix.WaitStatus) error {
	if p.meets(tid) {
		if tid == p.pid {
			if err := unix.PtraceSetOptions(tid, traceOptions); err != nil {
				return fmt.Errorf("ptrace options: %w", err)
			}
			return unix.PtraceSyscall(tid, 0)
		}
	}
	signal := status.StopSignal()
	switch {
	case signal == unix.SIGTRAP|0x80:
		p.inside[tid] = !p.inside[tid]
		if p.inside[tid] && p.ours[tid] && !p.killed {
			if it, err := p.enters(tid); err != nil {
				return err
			} else if it {
				return p.end()
			}
		}
		signal = 0
	case signal == unix.SIGTRAP && status.TrapCause() > 0, signal == unix.SIGSTOP: // an event; the first stop of a new thread
		signal = 0
	}
	return unix.PtraceSyscall(tid, int(signal))
}

// meets tells whether a thread has not been seen before. Once the time is over it does not live on.
func (p *tracer) meets(tid int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, seen := p.ours[tid]; seen {
		return false
	}
	p.ours[tid] = threadOf(tid) == p.pid
	if p.over {
		_ = unix.Kill(tid, unix.SIGKILL) // it may have ended
	}
	return true
}

func (p *tracer) gone(tid int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.inside, tid)
	delete(p.ours, tid)
}

// tooLate kills the program and all that it has started. It is called on another thread: the tracer waits.
func (p *tracer) tooLate() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over, p.late = true, true
	for tid := range p.ours {
		_ = unix.Kill(tid, unix.SIGKILL) // it may have ended
	}
}

// enters counts a system call, and tells whether it is the one.
func (p *tracer) enters(tid int) (it bool, err error) {
	nr, err := systemCall(tid)
	if err != nil {
		return false, fmt.Errorf("which system call it makes: %w", err)
	}
	if slices.Contains(idle, nr) {
		return false, nil
	}
	p.calls++
	if p.calls != p.kill {
		return false, nil
	}
	if p.before = names[nr]; p.before == "" {
		p.before = fmt.Sprintf("system call %d", nr)
	}
	return true, nil
}

// end kills the program, and what it has started.
func (p *tracer) end() error {
	p.killed = true
	victims := []int{p.pid}
	if p.all {
		for tid := range p.ours {
			victims = append(victims, threadOf(tid))
		}
	}
	for _, pid := range victims {
		if pid == 0 { // has gone; and 0 would be our own process group
			continue
		}
		if err := unix.Kill(pid, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			return err
		}
	}
	return nil
}

// systemCall is the number of the call that a thread is about to make.
func systemCall(tid int) (uint64, error) {
	const getSyscallInfo = 0x420e // PTRACE_GET_SYSCALL_INFO, since Linux 5.3
	var info [11]uint64           // struct ptrace_syscall_info: 24 bytes of header, then the number
	_, _, errno := unix.Syscall6(unix.SYS_PTRACE, getSyscallInfo, uintptr(tid), unsafe.Sizeof(info), uintptr(unsafe.Pointer(&info)), 0, 0)
	runtime.KeepAlive(&info)
	if errno != 0 {
		return 0, errno
	}
	return info[3], nil
}

// threadOf is the process that a thread belongs to, 0 if it has gone.
func threadOf(tid int) int {
	file, err := os.Open(fmt.Sprintf("/proc/%d/status", tid))
	if err != nil {
		return 0
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), "Tgid:"); ok {
			pid, err := strconv.Atoi(strings.TrimSpace(value))
			if err != nil {
				return 0
			}
			return pid
		}
	}
	return 0
}
