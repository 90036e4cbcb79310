package skeltest

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/cnikit/cnikit/netconf"
)

// concurrencyRequirements are about calls at the same time.
func concurrencyRequirements() []Requirement {
	return []Requirement{{
		ID: "concurrency/fifty", Level: Must, Section: "CNI 1.1.0, 3 (Lifecycle: \"may invoke in parallel\")",
		Text:    "Fifty attachments at once: each ADD succeeds, no address is given twice, and DEL of all leaves nothing.",
		Explain: "A node that comes up starts all of its pods at once. What is shared (a bridge, a rule, a file of leases) needs a lock, or an operation that cannot be halved; and what two make at the same time is made once and no error.",
		Check:   concurrencyFifty,
	}, {
		ID: "concurrency/add-del", Level: Ours, Section: "CNI 1.1.0, 3 (\"must not invoke parallel operations for the same container\")",
		Text:    "ADD and DEL of one attachment at once come to what one order of them would; DEL after it leaves nothing.",
		Explain: "The specification forbids it, and runtimes do it: one that gave up on ADD calls DEL while the first still runs. Without a lock DEL looks before ADD has made the half that then stays for ever. One call at a time for an attachment.",
		Check:   concurrencyAddDel,
	}}
}

func concurrencyFifty(b *Bench) {
	const many = 50
	first, second := b.Container(), b.Container()
	b.Settle(first)
	b.attachKept(first)
	b.AttachAnother(second)
	b.Succeeds(first.Del())
	b.Succeeds(second.Del())
	var all []*Container
	for range many {
		all = append(all, b.Container())
	}
	before := b.Look()
	given := map[string]int{}
	for i, a := range b.together(all, func(i int) Call { return all[i].Add }) {
		switch {
		case a.Exit != 0:
			b.Errorf("ADD of %s: exit status %d, code %d, %s", all[i].Add.ContainerID, a.Exit, a.Err.Code, a.Err.Msg)
			continue
		case a.Result == nil:
			b.Errorf("ADD of %s: the result cannot be read: %v", all[i].Add.ContainerID, a.protocol)
			continue
		}
		for _, ip := range a.Result.IPs {
			if ip.Interface == nil || a.Result.Interfaces[*ip.Interface].Sandbox != "" {
				given[ip.Address.IP.String()]++
			}
		}
	}
	for ip, n := range given {
		if n > 1 && !b.Stateless { // who keeps nothing gives what the runtime asks for: here the same
			b.Errorf("the address %s was given %d times", ip, n)
		}
	}
	for i, a := range b.together(all, func(i int) Call { return all[i].Del() }) {
		if a.Exit != 0 {
			b.Errorf("DEL of %s: exit status %d, code %d, %s", all[i].Add.ContainerID, a.Exit, a.Err.Code, a.Err.Msg)
		}
	}
	b.Same(before, "after 50 ADDs and 50 DELs at once")
}

// together makes a call for each of the containers, all at once.
func (b *Bench) together(containers []*Container, call func(i int) Call) []Answer {
	var wait sync.WaitGroup
	calls, answers, start := make([]Call, len(containers)), make([]Answer, len(containers)), make(chan struct{})
	for i := range containers {
		calls[i] = call(i)
		wait.Go(func() {
			<-start
			answers[i] = b.limited(b.Context(), calls[i])
		})
	}
	close(start)
	wait.Wait()
	for i, a := range answers {
		b.inTime(calls[i], a)
	}
	return answers
}

func concurrencyAddDel(b *Bench) {
	c := b.Container()
	before := b.Settle(c)
	b.attachKept(c)
	full := strings.Count(before.Diff(b.Look(c)), "\n")
	b.Succeeds(c.Del())
	for range 5 {
		both := []Call{c.Add, c.Del()}
		a := b.together([]*Container{c, c}, func(i int) Call { return both[i] })[1]
		if a.Exit != 0 && a.Err.Code != netconf.CodeTryAgainLater {
			b.Errorf("DEL beside ADD: exit status %d, code %d, %s", a.Exit, a.Err.Code, a.Err.Msg)
		}
		diff := before.Diff(b.Look(c))
		if diff != "" && strings.Count(diff, "\n") != full {
			b.Errorf("ADD and DEL at once: neither attached nor as before (- gone, + left):\n%s", diff)
		}
		b.Succeeds(c.Del())
		b.Same(before, "after ADD and DEL at once, and DEL", c)
		if b.Failed() {
			return
		}
	}
	if b.ipam() != "" {
		addInsideDel(b)
	}
}

// addInsideDel calls ADD when DEL has released the address and not yet gone on, to a link perhaps. Who has a lock lets
// ADD wait: two seconds are for those who have none.
func addInsideDel(b *Bench) {
	ipam := b.WithIPAM()
	c := b.Container()
	before := b.Settle(c)
	state := func() string { return fmt.Sprint(strings.Count(before.Diff(b.Look(c)), "\n"), len(ipam.Reserved())) }
	none := state()
	b.Attach(c)
	full := state()
	b.Succeeds(c.Del())
	ipam.Hold("DEL")
	add, del := make(chan Answer, 1), make(chan Answer, 1)
	held := func() bool { // tells whether DEL came to the IPAM plugin
		go func() { del <- b.limited(b.Context(), c.Del()) }()
		Eventually(b, "DEL calls its IPAM plugin, or ends", func() bool { return ipam.hangs() > 0 || len(del) > 0 })
		return ipam.hangs() > 0
	}
	if !held() { // it has written down what it had called, and there is nothing: so let there be something
		b.inTime(c.Del(), <-del)
		b.Attach(c)
		if !held() {
			b.inTime(c.Del(), <-del)
			return // its address is given back by who has not been asked: del/all judges that
		}
	}
	go func() { add <- b.limited(b.Context(), c.Add) }()
	select {
	case a := <-add:
		add <- a
	case <-time.After(2 * time.Second):
	}
	ipam.Heal()
	a, d := <-add, <-del
	b.inTime(c.Add, a)
	b.inTime(c.Del(), d)
	if now := state(); now != none && now != full {
		b.Errorf("ADD (exit status %d %s) when DEL (exit status %d %s) had released the address: neither attached nor as before; reserved is %q (- gone, + left):\n%s",
			a.Exit, a.Err.Msg, d.Exit, d.Err.Msg, ipam.Reserved(), before.Diff(b.Look(c)))
	}
	b.Succeeds(c.Del())
	b.Same(before, "after ADD inside of DEL, and DEL", c)
}
