package skeltest

import (
	"fmt"
	"math/rand/v2"
	"os"

	"github.com/cnikit/cnikit/netconf"
)

// How often ADD and DEL are killed, and the seed of the places: it is part of what the requirements are.
const (
	killsOfAdd = 25
	killsOfDel = 10
	killSeed   = 1
)

// killRequirements are about a plugin that is killed, as by a runtime that gives up, the kernel that is out of
// memory, or a node that goes down. What runs in the same process as the suite cannot be.
func killRequirements() []Requirement {
	const section = "CNI 1.1.0, 2 (DEL), 3"
	const explain = "Every two of your plugin's operations are a place where it can end. What DEL cannot find stays: write down what you are about to make before you make it, or make it so that it shows whose it is from the first moment on. The place that is listed is the system call that was never made."
	return []Requirement{{
		ID: "kill/add", Level: Ours, Section: section,
		Text:    "Wherever ADD is killed, DEL after it, without a prevResult, leaves all as before; the delegates that it had started run on.",
		Explain: explain,
		Check:   func(b *Bench) { killAnywhere(b, netconf.Add, killsOfAdd, false) },
	}, {
		ID: "kill/add-all", Level: Ours, Section: section,
		Text:    "Wherever ADD is killed with all that it has started, DEL after it, without a prevResult, leaves all as before.",
		Explain: explain,
		Check:   func(b *Bench) { killAnywhere(b, netconf.Add, killsOfAdd, true) },
	}, {
		ID: "kill/del", Level: Must, Section: section,
		Text:    "Wherever DEL is killed, DEL once more leaves all as before.",
		Explain: explain + " DEL once more must not stumble over what the first one has taken away.",
		Check:   func(b *Bench) { killAnywhere(b, netconf.Del, killsOfDel, false) },
	}, {
		ID: "kill/orphan", Level: Ours, Section: section + ", 4", Kinds: makers,
		Text:    "ADD is killed while its IPAM plugin works, DEL follows: in the end no address is taken.",
		Explain: "The IPAM plugin outlives its caller and takes the address after DEL has found none: nobody will ever give it back. Let the kernel end the delegate with you (PR_SET_PDEATHSIG), or let DEL wait for it.",
		Check:   killOrphan,
	}}
}

// killable returns the plugin's program.
func (b *Bench) killable() Binary {
	program, ok := b.Plugin.(Binary)
	if !ok {
		b.Skip("the plugin runs in the process of the test, which cannot be killed: see add/harmed, or judge it as a program")
	}
	return program
}

func killAnywhere(b *Bench, verb netconf.Command, kills int, all bool) {
	program := b.killable()
	c := b.Container()
	before := b.Settle(c)
	call := c.Add
	if verb == netconf.Del {
		call = c.Del()
		b.Attach(c)
	}
	unharmed := b.traced(program, call, tracing{})
	if unharmed.exit != 0 || unharmed.calls < 10 {
		b.Fatalf("%s made %d system calls, exit status %d", verb, unharmed.calls, unharmed.exit)
	}
	b.Succeeds(c.Del())
	random := rand.New(rand.NewPCG(killSeed, 0))
	died, calls := 0, unharmed.calls
	for i := range kills {
		if verb == netconf.Del {
			b.Attach(c)
		}
		// Somewhere in the i-th part of the whole.
		n := 1 + (calls*i+random.IntN(calls))/kills
		t := b.traced(program, call, tracing{kill: n, all: all})
		if t.killed {
			died++
		} else if t.calls > 0 {
			calls = min(calls, t.calls) // on a busy machine the first run may have waited in many calls more
		}
		where := fmt.Sprintf("after %s that was killed before %s (call %d of %d, seed %d), and DEL", verb, t.before, n, unharmed.calls, killSeed)
		if a := b.Run(c.Del()); a.Exit != 0 {
			b.Errorf("%s: DEL failed: code %d, %s", where, a.Err.Code, a.Err.Msg)
		}
		b.Same(before, where, c)
		if b.Failed() {
			return // what is left spoils the next
		}
	}
	// It may make fewer calls the next time, but not always.
	if died < kills/2 {
		b.Fatalf("of %d runs only %d could be killed", kills, died)
	}
}

func killOrphan(b *Bench) {
	program := b.killable()
	ipam := b.WithIPAM()
	c := b.Container()
	before := b.Settle(c)
	ipam.Hang("ADD")
	pid, ended := b.start(program, c.Add)
	hanging := ipam.Hanging()
	if err := pid.Kill(); err != nil {
		b.Fatal(err)
	}
	<-ended
	del := b.Run(c.Del()) // may wait for the orphan, until its time is over
	ipam.Heal()
	Eventually(b, "the IPAM plugin that hung has ended", func() bool { return !running(hanging) })
	if left := ipam.Reserved(); len(left) > 0 {
		b.Errorf("DEL, exit status %d %s, came before the IPAM plugin took an address, which stays: %q", del.Exit, del.Err.Msg, left)
	}
	if del.Exit != 0 {
		b.Succeeds(c.Del())
	}
	b.Same(before, "after ADD that was killed, and DEL", c)
}

// start starts the program with a call, whose answer goes nowhere.
func (b *Bench) start(program Binary, call Call) (*os.Process, <-chan struct{}) {
	b.Helper()
	process, err := b.process(program, call, nil)
	if err != nil {
		b.Fatalf("start %s: %v", program, err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = process.Wait() // it was killed
	}()
	return process, ended
}
