// Command bench times plugins as a runtime sees them: whole processes, ours and the reference plugins
// v1.10.0 in turn, in a fresh namespace for each attachment, on the same host and in the same run.
//
//	make bench
//
// builds both sides, runs this in namespaces of its own and prints a table: for each plugin, stack and verb the
// median and 95th percentile of the wall time, the CPU time of the process tree and the peak memory of its
// largest process, of both sides, and the ratio of the medians. The reference host-local gives the addresses
// on both sides as a second process ("program"), or ours does in ours ("in-process"), over the same files. It judges
// nothing: on a shared machine a single run says little, a ratio more.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// contest is a plugin with a configuration, on both sides.
type contest struct {
	plugin, keys string
	masq         bool // the addresses are masqueraded, by each side's own way: the reference runs iptables
	dual         bool
	program      bool // host-local is a program for ours too
	leases       int  // how many others there are
}

func (c contest) ipam() string {
	if c.program {
		return "program"
	}
	return "in-process"
}

// row is the name of a plugin in the table.
func (c contest) row() string {
	if c.masq {
		return c.plugin + "+ipMasq"
	}
	return c.plugin
}

func (c contest) stack() string {
	if c.dual {
		return "dual"
	}
	return "v4"
}

// config is the network's configuration, with a prevResult if there is one.
func (c contest) config(prev string) string {
	ranges := `[{"subnet":"10.9.0.0/16"}]`
	routes := `{"dst":"0.0.0.0/0"}`
	if c.dual {
		ranges += `,[{"subnet":"fd09::/64"}]`
		routes += `,{"dst":"::/0"}`
	}
	if prev != "" {
		prev = `,"prevResult":` + prev
	}
	keys := c.keys
	if c.masq {
		keys += `,"ipMasq":true`
	}
	return fmt.Sprintf(`{"cniVersion":"1.0.0","name":"bench%d","type":%q,%s,"ipam":{"type":"host-local","ranges":[%s],"routes":[%s]}%s}`,
		c.leases, c.plugin, keys, ranges, routes, prev)
}

// fill makes the leases of others, as the reference host-local would have.
func (c contest) fill() error {
	dir := filepath.Join("/var/lib/cni/networks", fmt.Sprintf("bench%d", c.leases))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	last := ""
	for i := range c.leases {
		last = fmt.Sprintf("10.9.%d.%d", (i+2)/256, (i+2)%256)
		if err := os.WriteFile(filepath.Join(dir, last), fmt.Appendf(nil, "%064x\r\neth0", i), 0o600); err != nil {
			return err
		}
	}
	if last == "" {
		return nil
	}
	return os.WriteFile(filepath.Join(dir, "last_reserved_ip.0"), []byte(last), 0o600)
}

// side is one of the two makes of plugins: the folder that holds the programs.
type side struct{ name, dir string }

func main() {
	reference := flag.String("reference", "", "folder with the reference plugins and host-local")
	ours := flag.String("ours", "", "folder with our plugins")
	compiled := flag.String("compiled", "", "folder with our plugins, host-local compiled in")
	blocks := flag.Int("blocks", 15, "how often the sides take turns")
	each := flag.Int("each", 8, "attachments of a side in a block; a quarter of it where ADD waits for address detection")
	only := flag.String("only", "", "only the rows that have this in PLUGIN/STACK/HOST-LOCAL/LEASES, such as macvlan/v4/in-process/0 or bridge+ipMasq")
	flag.Parse()
	if err := run(side{"reference", *reference}, side{"ours", *ours}, side{"ours", *compiled}, *blocks, *each, *only); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(reference, ours, compiled side, blocks, each int, only string) error {
	if err := prepare(); err != nil {
		return err
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(out, "plugin\tstack\thost-local\tleases\tverb\treference ms\tp95\tcpu ms\tMiB\tours ms\tp95\tcpu ms\tMiB\tratio")
	for _, c := range []contest{
		{plugin: "macvlan", keys: `"master":"up0"`}, {plugin: "bridge", keys: `"bridge":"bench0"`}, {plugin: "ptp", keys: `"mtu":1500`},
		{plugin: "macvlan", keys: `"master":"up0"`, program: true}, {plugin: "bridge", keys: `"bridge":"bench0"`, program: true},
		{plugin: "ptp", keys: `"mtu":1500`, program: true}, {plugin: "macvlan", keys: `"master":"up0"`, leases: 5000},
		{plugin: "bridge", keys: `"bridge":"bench0","isGateway":true`, masq: true}, {plugin: "bridge", keys: `"bridge":"bench0","isGateway":true`, masq: true, program: true},
		{plugin: "macvlan", keys: `"master":"up0"`, dual: true}, {plugin: "bridge", keys: `"bridge":"bench0"`, dual: true}, {plugin: "ptp", keys: `"mtu":1500`, dual: true},
	} {
		if only != "" && !strings.Contains(fmt.Sprintf("%s/%s/%s/%d", c.row(), c.stack(), c.ipam(), c.leases), only) {
			continue
		}
		if err := c.fill(); err != nil {
			return err
		}
		n, b := each, blocks
		if c.dual { // the reference waits for a second or two in each ADD
			n, b = max(1, each/4), max(3, blocks/3)
		}
		mine := compiled
		if c.program {
			mine = ours
		}
		figures := map[string][2]sample{}
		for range b {
			for i, s := range []side{reference, mine} {
				if err := block(c, s, reference.dir, n, func(verb string, f figure) {
					both := figures[verb]
					both[i] = append(both[i], f)
					figures[verb] = both
				}); err != nil {
					return fmt.Errorf("%s %s: %w", s.name, c.row(), err)
				}
			}
		}
		for _, verb := range []string{"ADD", "CHECK", "DEL", "VERSION"} {
			r, o := figures[verb][0], figures[verb][1]
			fmt.Fprintf(out, "%s\t%s\t%s\t%d\t%s\t%s\t%s\t%.3f\n", c.row(), c.stack(), c.ipam(), c.leases, verb, r, o, r.ratio(o))
		}
		if err := out.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// prepare makes the parent link, and sees to it that this is not the machine's own network.
func prepare() error {
	links, err := exec.Command("ip", "-br", "link").Output()
	if err != nil {
		return err
	}
	if strings.Count(string(links), "\n") != 1 {
		return fmt.Errorf("this is to run in a network namespace of its own, with nothing but lo: see make bench")
	}
	for _, command := range []string{
		"ip link set lo up", "ip link add up0 type veth peer name wire", "ip link set up0 up", "ip link set wire up",
	} {
		if err := shell(command); err != nil {
			return err
		}
	}
	return nil
}

func shell(command string) error {
	words := strings.Fields(command)
	if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", command, err, out)
	}
	return nil
}

// block makes n attachments of a side, one after the other, each in a namespace of its own.
func block(c contest, s side, ipam string, n int, note func(verb string, f figure)) error {
	for i := range n + 1 {
		if err := shell("ip netns add bench"); err != nil {
			return err
		}
		prev := ""
		for _, verb := range []string{"ADD", "CHECK", "DEL", "VERSION"} {
			// The first of a block is not timed: its memory is measured, and it warms the caches up.
			f, out, err := call(i == 0, filepath.Join(s.dir, c.plugin), verb, ipam, c.config(prev))
			if err != nil {
				return fmt.Errorf("%s: %w", verb, err)
			}
			if verb == "ADD" {
				prev = out
			}
			note(verb, f)
		}
		if err := shell("ip netns del bench"); err != nil {
			return err
		}
	}
	return nil
}

// figure is what one call cost: its time, or its memory.
type figure struct {
	wall, cpu time.Duration // cpu of the process and those it waited for
	memory    int64         // KiB, of the largest of them; 0 if it was timed
}

// call runs a plugin and times it, or measures its memory: then under GNU time, since what the kernel
// counts as a process's peak begins with the memory of the one that forked it, which here is larger.
func call(memory bool, program, verb, ipam, config string) (f figure, stdout string, err error) {
	cmd := exec.Command(program)
	if memory {
		cmd = exec.Command("/usr/bin/time", "-f", "%M", program)
	}
	// Files, not pipes: those cost the bench a goroutine each, and its own work would be in the figures.
	in, out, log, err := files(config)
	if err != nil {
		return f, "", err
	}
	defer in.Close()
	defer out.Close()
	defer log.Close()
	cmd.Env = []string{"CNI_COMMAND=" + verb, "CNI_CONTAINERID=bench", "CNI_NETNS=/run/netns/bench", "CNI_IFNAME=eth0", "CNI_PATH=" + ipam, "PATH=" + os.Getenv("PATH")}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, log
	begin := time.Now()
	err = cmd.Run()
	f.wall = time.Since(begin)
	answer, said := content(out), content(log)
	if err != nil {
		return f, "", fmt.Errorf("%w: %s%s", err, answer, said)
	}
	f.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if memory {
		lines := strings.Fields(said)
		if len(lines) == 0 {
			return f, "", fmt.Errorf("GNU time says nothing")
		}
		f.memory, err = strconv.ParseInt(lines[len(lines)-1], 10, 64)
	}
	return f, answer, err
}

// files makes the streams of a call, as files without a name in the tmpfs of this run.
func files(config string) (in, out, log *os.File, err error) {
	var made [3]*os.File
	for i := range made {
		if made[i], err = os.CreateTemp("/run/cnikit", "bench-*"); err != nil {
			return nil, nil, nil, err
		}
		if err = os.Remove(made[i].Name()); err != nil {
			return nil, nil, nil, err
		}
	}
	if _, err = made[0].WriteString(config); err == nil {
		_, err = made[0].Seek(0, io.SeekStart)
	}
	return made[0], made[1], made[2], err
}

// content is all that was written to a file; what cannot be read is said instead.
func content(f *os.File) string {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return err.Error()
	}
	data, err := io.ReadAll(f)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// sample is all figures of one verb on one side.
type sample []figure

// String is the median and 95th percentile of the wall time, the median of the CPU time, and the peak memory.
func (s sample) String() string {
	var memory int64
	for _, f := range s {
		memory = max(memory, f.memory)
	}
	return fmt.Sprintf("%.2f\t%.2f\t%.2f\t%.1f", ms(s.wall(50)), ms(s.wall(95)), ms(s.at(50, func(f figure) time.Duration { return f.cpu })), float64(memory)/1024)
}

func (s sample) wall(percent int) time.Duration {
	return s.at(percent, func(f figure) time.Duration { return f.wall })
}

// at is a percentile of what was timed.
func (s sample) at(percent int, of func(figure) time.Duration) time.Duration {
	var values []time.Duration
	for _, f := range s {
		if f.memory == 0 {
			values = append(values, of(f))
		}
	}
	slices.Sort(values)
	return values[min(len(values)*percent/100, len(values)-1)]
}

// ratio is o's median wall time by s's.
func (s sample) ratio(o sample) float64 { return float64(o.wall(50)) / float64(s.wall(50)) }

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
