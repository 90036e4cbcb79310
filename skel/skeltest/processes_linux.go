package skeltest

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// process is one that lives: not one that has ended and is waited for by nobody.
type process struct {
	pid, parent int
	began       string // in ticks since the machine began, so that a pid that is used again is told
	command     string
}

// background lists the processes that a plugin has left behind. A requirement is judged by the first process of a process
// namespace: what a plugin starts is in it, whatever it does to get away, and nothing else but what Setup has started, with
// what that starts, and what this process does itself, which has ended when it looks. What is new is given three seconds
// to end, as after the death of a delegate's caller; what then lives has been left, and is not waited for again.
func (b *Bench) background() (s Snapshot) {
	if os.Getpid() != 1 {
		return nil
	}
	var left []process
	settles(func() (fresh string) {
		left = b.foreign()
		for _, p := range left {
			if b.lasting[p.pid] != p.began {
				fresh = p.command
			}
		}
		return fresh
	})
	for _, p := range left {
		if b.lasting == nil {
			b.lasting = map[int]string{}
		}
		b.lasting[p.pid] = p.began
		s = append(s, "process: "+p.command)
	}
	return s
}

// foreign lists the processes of the namespace but the first, and what was there when Setup had ended, with its
// descendants.
func (b *Bench) foreign() (all []process) {
	b.Helper()
	living, err := processes()
	if err != nil {
		b.Fatalf("list processes: %v", err)
	}
	for pid, p := range living {
		setUp := false
		for up := p; up.pid > 1 && !setUp; up = living[up.parent] {
			setUp = b.setUp[up.pid] == up.began
		}
		if pid != 1 && !setUp {
			all = append(all, p)
		}
	}
	return all
}

// haveSetUp notes what lives as what Setup has started.
func (b *Bench) haveSetUp() {
	if os.Getpid() != 1 {
		return
	}
	living, err := processes()
	if err != nil {
		b.Fatalf("list processes: %v", err)
	}
	b.setUp = map[int]string{}
	for pid, p := range living {
		b.setUp[pid] = p.began
	}
}

// processes lists those of the process namespace.
func processes() (living map[int]process, err error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	living = map[int]process{}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		p, lives, err := processOf(pid)
		if err != nil {
			return nil, err
		}
		if lives {
			living[pid] = p
		}
	}
	return living, nil
}

// processOf reads what proc(5) says of a process.
func processOf(pid int) (p process, lives bool, err error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return p, false, nil // it has ended meanwhile
	}
	_, name, _ := strings.Cut(string(stat), "(")
	end := strings.LastIndexByte(name, ')') // the name may have one too
	fields := strings.Fields(name[end+1:])
	if end < 0 || len(fields) < 20 {
		return p, false, fmt.Errorf("/proc/%d/stat is %q", pid, stat)
	}
	if fields[0] == "Z" || fields[0] == "X" {
		return p, false, nil
	}
	p = process{pid: pid, began: fields[19], command: "[" + name[:end] + "]"}
	if p.parent, err = strconv.Atoi(fields[1]); err != nil {
		return p, false, err
	}
	if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)); err == nil && len(line) > 0 {
		p.command = fmt.Sprintf("%.200q", strings.TrimRight(strings.ReplaceAll(string(line), "\x00", " "), " "))
	}
	return p, true, nil
}
