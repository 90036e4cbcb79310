package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// This is much like the SDK's internal/bench, and shares nothing with it: a copy of this example under another module's path
// could not import what is internal to the SDK, and the SDK's bench should not need an example.

// figure is what one call cost: its time, or its memory; and what it asked of the API server.
type figure struct {
	wall, cpu        time.Duration // cpu of the process and those it waited for
	memory           int64         // KiB, of the largest of them; 0 if it was timed
	requests, events int
}

// call is one of a plugin.
type call struct{ program, ifname, config string }

// call runs a plugin and times it, or measures its memory: then under GNU time, since what the kernel
// counts as a process's peak begins with the memory of the one that forked it, which here is larger.
func (b *bench) call(memory bool, c call, verb string) (f figure, stdout string, err error) {
	cmd := exec.Command(c.program)
	if memory {
		cmd = exec.Command("/usr/bin/time", "-f", "%M", c.program)
	}
	cmd.Env = []string{
		"CNI_COMMAND=" + verb, "CNI_CONTAINERID=bench", "CNI_NETNS=/run/netns/bench", "CNI_IFNAME=" + c.ifname, "CNI_PATH=" + b.plugins,
		"CNI_ARGS=IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=pod;K8S_POD_INFRA_CONTAINER_ID=bench;K8S_POD_UID=uid-1", "PATH=" + os.Getenv("PATH"),
	}
	var out, said bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(c.config), &out, &said
	begin := time.Now()
	err = cmd.Run()
	f.wall = time.Since(begin)
	if err != nil {
		return f, "", fmt.Errorf("%s: %w: %s%s", c.program, err, &out, &said)
	}
	f.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if memory {
		lines := strings.Fields(said.String())
		if len(lines) == 0 {
			return f, "", fmt.Errorf("GNU time says nothing")
		}
		f.memory, err = strconv.ParseInt(lines[len(lines)-1], 10, 64)
	}
	return f, out.String(), err
}

// sample is all figures of one verb on one side.
type sample []figure

// String is the median and 95th percentile of the wall time, the median of the CPU time, and the peak memory.
func (s sample) String() string {
	return fmt.Sprintf("%.2f\t%.2f\t%.2f\t%.1f", ms(s.wall(50)), ms(s.wall(95)), ms(s.cpu()), s.memory())
}

// memory is the peak memory in MB.
func (s sample) memory() float64 {
	var most int64
	for _, f := range s {
		most = max(most, f.memory)
	}
	return float64(most) * 1024 / 1e6
}

func (s sample) wall(percent int) time.Duration {
	return s.at(percent, func(f figure) time.Duration { return f.wall })
}

func (s sample) cpu() time.Duration { return s.at(50, func(f figure) time.Duration { return f.cpu }) }

// at is a percentile of what was timed; 0 if nothing was.
func (s sample) at(percent int, of func(figure) time.Duration) time.Duration {
	var values []time.Duration
	for _, f := range s {
		if f.memory == 0 {
			values = append(values, of(f))
		}
	}
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[min(len(values)*percent/100, len(values)-1)]
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
