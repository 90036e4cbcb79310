package skeltest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// judgeOnly marks the environment of a program that judge has started again: "ID NAME", where NAME is the test's.
const judgeOnly = "CNIKIT_CONFORM_ONLY"

// requirementLimit is how long one requirement may take, on a machine of ten times the usual load.
const requirementLimit = 5 * time.Minute

// asked returns the requirement that this process was started for, "" if none; here, if by the test of this name.
func asked(name string) (id string, here bool) {
	id, of, _ := strings.Cut(os.Getenv(judgeOnly), " ")
	return id, id != "" && of == name
}

// judge starts this program again on a new host, where [serve] judges one requirement.
func judge(ctx context.Context, r Requirement, name string, again []string) Outcome {
	o, began := Outcome{ID: r.ID}, time.Now()
	ctx, cancel := context.WithTimeout(ctx, requirementLimit)
	defer cancel()
	answer, output, err := start(ctx, r.ID+" "+name, again)
	if err == nil {
		err = json.Unmarshal(answer, &o)
	}
	if err != nil {
		o.Status, o.Detail = NotJudged, fmt.Sprintf("could not be judged: %v\n%s", err, output)
	}
	o.Took = time.Since(began)
	return o
}

// start runs this program in new namespaces, and returns what it wrote to descriptor 3, and what it printed. With its
// process namespace all ends that the requirement has started.
func start(ctx context.Context, only string, again []string) (answer []byte, output string, err error) {
	dir, err := os.MkdirTemp("", "conform")
	if err != nil {
		return nil, "", err
	}
	defer os.RemoveAll(dir)
	file, err := os.Create(dir + "/outcome")
	if err != nil {
		return nil, "", err
	}
	defer file.Close()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", again[1:]...)
	cmd.Args[0] = again[0]
	cmd.Env = append(os.Environ(), judgeOnly+"="+only, inside+"=1", "TMPDIR="+dir)
	cmd.ExtraFiles = []*os.File{file}
	var printed bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &printed, &printed, time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS | unix.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	runtime.LockOSThread() // Pdeathsig follows the thread that forks
	defer runtime.UnlockOSThread()
	if err := cmd.Run(); err != nil {
		return nil, printed.String(), err
	}
	answer, err = os.ReadFile(file.Name())
	return answer, printed.String(), err
}

// serve judges one of the requirements in this process, which is on a host of its own, and writes the outcome to descriptor 3.
func serve(target Target, of []Requirement, id string) (exit int) {
	file := os.NewFile(3, "outcome")
	i := slices.IndexFunc(of, func(r Requirement) bool { return r.ID == id })
	o := Outcome{ID: id, Status: NotJudged}
	if i < 0 {
		o.Detail = "there is no such requirement"
	} else if err := prepareHost(target); err != nil {
		o.Detail = err.Error()
	} else {
		b := &Bench{Target: target, id: id}
		o.Status, o.Detail = b.judge(of[i])
	}
	if err := json.NewEncoder(file).Encode(o); err != nil {
		fmt.Fprintln(os.Stderr, "write the outcome:", err)
		return 1
	}
	return 0
}

// prepareHost makes the host what each requirement begins with.
func prepareHost(target Target) error {
	keep := target.Path
	if program, ok := target.Plugin.(Binary); ok {
		keep = append(slices.Clone(keep), filepath.Dir(string(program)))
	}
	if err := prepare(keep...); err != nil {
		return err
	}
	for _, fs := range [][2]string{{"proc", "/proc"}, {"sysfs", "/sys"}} { // of these namespaces
		if err := unix.Mount(fs[0], fs[1], fs[0], unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
			return fmt.Errorf("mount %s: %w", fs[1], err)
		}
	}
	for _, dir := range target.state() {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := unix.Mount("tmpfs", dir, "tmpfs", 0, ""); err != nil {
			return fmt.Errorf("mount a tmpfs on %q: %w", dir, err)
		}
	}
	// Without link-local addresses, which come by themselves in their own time, after a snapshot.
	const card = "link add p0 type veth peer name p1\nlink set p0 addrgenmode none up\nlink set p1 addrgenmode none up\n"
	if out, err := runWith(card, "ip", "-batch", "-"); err != nil {
		return fmt.Errorf("make the network card: %w %s", err, out)
	}
	return nil
}

func (t Target) state() []string {
	if t.State == nil {
		return DefaultState()
	}
	return t.State
}
