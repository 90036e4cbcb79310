//go:build linux

package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// A hundred processes at once, the first of which makes the table: each gets its port; of a hundred that want one port, one
// does. Then all are gone.
func TestHundredProcessesAtOnce(t *testing.T) {
	needed(t)
	program := skeltest.Binary(filepath.Join(skeltest.Build(t, "."), "portmap"))
	ns := container(t)
	const n = 100
	all := func(verb netconf.Command, port func(i int) int) (answers [n]skeltest.Answer) {
		var wg sync.WaitGroup
		for i := range n {
			wg.Go(func() {
				c := add(ns, strings.Replace(tcp8080, "8080", fmt.Sprint(port(i)), 1), "").With(verb)
				c.ContainerID = fmt.Sprint("c", i)
				answers[i] = c.Run(t.Context(), t, program)
			})
		}
		wg.Wait()
		return answers
	}
	own, same := func(i int) int { return 20000 + i }, func(int) int { return 20000 }
	list := func() string { return skeltest.Host(t, "nft", "list", "table", "inet", "cnikit") }
	for _, a := range all(netconf.Add, own) {
		a.OK(t)
	}
	if have := strings.Count(list(), "tcp . 20"); have != 2*n {
		t.Errorf("%d ports, expected %d of each family:\n%s", have, n, list())
	}
	for _, a := range all(netconf.Del, own) {
		a.OK(t)
	}
	winners := 0
	for i, a := range all(netconf.Add, same) {
		if a.Exit == 0 {
			winners++
		} else if a.Err.Code != netconf.CodeExists || !strings.Contains(a.Err.Msg, "cni:net:c") {
			t.Errorf("%d: %+v", i, a.Err)
		}
	}
	if winners != 1 {
		t.Errorf("%d have the port", winners)
	}
	for _, a := range all(netconf.Del, same) {
		a.OK(t)
	}
	if strings.Contains(list(), "cni:net:") {
		t.Errorf("left:\n%s", list())
	}
}
