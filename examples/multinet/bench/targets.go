package main

import (
	"fmt"
	"os"
	"text/tabwriter"
	"time"
)

// key is what the figures of a verb of a side are kept under.
func key(s side, verb string, late time.Duration) string { return fmt.Sprint(s.name, verb, late) }

// table prints a row for each verb and side.
func table(all []side, figures map[string]sample) error {
	out := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(out, "verb\tof\tms\tp95\tcpu ms\tMB\tover multus\tover its plugins, ms\trequests\tevents")
	plugins := all[len(all)-1]
	for _, verb := range []string{"ADD", "CHECK", "DEL", "VERSION"} {
		for i, s := range all {
			f, base, below := figures[key(s, verb, 0)], figures[key(all[i/3*3%6], verb, 0)], figures[key(plugins, verb, 0)]
			fmt.Fprintf(out, "%s\t%s\t%s\t%.2f\t%.2f\t%d\t%d\n", verb, s.name, f, float64(f.wall(50))/float64(base.wall(50)), ms(f.wall(50)-below.wall(50)),
				f[0].requests, f[0].events)
		}
	}
	return out.Flush()
}

// target is a number to reach, in its unit, with what was measured of multus and of multinet.
type target struct {
	what         string
	most         float64
	multus, ours float64
}

// targets prints what multinet is to reach, and whether it did.
func targets(all []side, figures map[string]sample) error {
	multus, programs, compiled, plugins := all[0], all[1], all[2], all[len(all)-1]
	size := func(s side) float64 {
		info, err := os.Stat(s.program)
		if err != nil {
			return 0 // cannot be: it ran
		}
		return float64(info.Size()) / 1e6
	}
	verb := func(s side, verb string) float64 { return ms(figures[key(s, verb, 0)].wall(50)) }
	added := func(s side, v string) float64 {
		if v == "DEL" { // of which the kernel takes ten times as long as all programs, and never the same
			return ms(figures[key(s, v, 0)].cpu() - figures[key(plugins, v, 0)].cpu())
		}
		return verb(s, v) - verb(plugins, v)
	}
	late := ms(figures[fmt.Sprint("request", latency)].wall(50) - figures[fmt.Sprint("request", time.Duration(0))].wall(50))
	each := func(s side) float64 { return (ms(figures[key(s, "ADD", latency)].wall(50)) - verb(s, "ADD")) / late }
	rows := []target{
		{"binary, stripped, MB", 18, size(multus), size(programs)},
		{"start-up (VERSION), ms", 4, verb(multus, "VERSION"), verb(programs, "VERSION")},
		{"peak memory of an ADD, MB", 14, figures[key(multus, "ADD", 0)].memory(), max(figures[key(programs, "ADD", 0)].memory(), figures[key(compiled, "ADD", 0)].memory())},
		{"API requests of an ADD, events apart", 4, float64(figures[key(multus, "ADD", 0)][0].requests), float64(figures[key(programs, "ADD", 0)][0].requests)},
		{"an ADD, for each ms of the API server's latency, ms", 3, each(multus), each(programs)},
	}
	for i, where := range []string{"with an API server", "without one"} {
		multus, programs, compiled := all[3*i], all[3*i+1], all[3*i+2]
		for _, v := range []string{"ADD", "CHECK", "DEL"} {
			rows = append(rows, target{"added to " + v + " over its delegates, " + where + ", ms", 2, added(multus, v), added(programs, v)},
				target{"the same, in-process", 0, added(multus, v), added(compiled, v)})
		}
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Fprintln(out, "\nof (DEL by its CPU time)\tat most\tmultus\tmultinet\t")
	for _, r := range rows {
		outcome := "met"
		if r.ours > r.most*1.005 { // what is not seen in the figures is not missed
			outcome = "missed"
		}
		fmt.Fprintf(out, "%s\t%g\t%.2f\t%.2f\t%s\n", r.what, r.most, r.multus, r.ours, outcome)
	}
	fmt.Fprintf(out, "(a request is later by %.2f ms where the server sleeps for %d)\n", late, latency.Milliseconds())
	return out.Flush()
}
