package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel/skeltest"
)

// A record that is damaged, ours or multus', is set aside. What libcni remembers is detached; where it remembers nothing, the
// default network is, and it is said, once, that others may be left.
func TestDamagedRecord(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"empty": "", "list": "[]", "null": "null", "cut": `[{"Conf":{"cniVersion":"1.0.0","na`, "elements": "[null]", "garbage": "\x00\x01",
		"no interface": `[{"Bytes":"eyJuYW1lIjoiYSIsInR5cGUiOiJzcHkifQ=="},{"Bytes":"eyJuYW1lIjoiYSIsInR5cGUiOiJzcHkifQ==","ifnameRequest":"a b"}]`} {
		for _, file := range []string{"c1", "outer:c1:eth0.record"} {
			t.Run(name+" "+file, func(t *testing.T) {
				w := newWorld(t)
				w.write("cni/"+file, text)
				w.do(netconf.Add).Fails(t, netconf.CodeExists)
				w.do(netconf.Del).Fails(t, netconf.CodeBadStore, "networks beside the default one")
				if got := w.log(); got != "DEL eth0" {
					t.Error(got)
				}
				w.del()
				if got := w.log(); got != "" {
					t.Error(got)
				}
				if names := w.names("cni"); len(names) != 1 || !strings.HasSuffix(names[0], ".bad") {
					t.Errorf("%q", names)
				}
				w.multus("c1")
				w.write("cni/"+file, text)
				w.remove("cni/" + map[bool]string{true: "none", false: "c1"}[file == "c1"])
				w.del()
				for _, ifname := range []string{"DEL eth0", "DEL net1", "DEL foo0"} {
					if log := w.read("log"); strings.Count(log, ifname) != 1 {
						t.Errorf("%q: expected one %s", log, ifname)
					}
				}
			})
		}
	}
}

// A GC that finds the record of a dead container damaged said nothing, and nor did the DEL after it: leases on its networks
// beside the default one stayed for ever. It does what the DEL does, and says once what may be left.
func TestDamagedRecordGC(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"empty": "", "garbage": "\x00\x01", "of a newer version": `{"version":99}`} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.write("cni/outer:c1:eth0.record", text)
			w.gc().Fails(t, netconf.CodeBadStore, `container "c1"`, "networks beside the default one")
			if got := w.log(); got != "DEL eth0, GC" {
				t.Error(got)
			}
			w.gc().OK(t)
			if names := w.names("cni"); len(names) != 1 || names[0] != "outer:c1:eth0.record.bad" {
				t.Errorf("%q", names)
			}
			w.multus("c1") // what libcni remembers is whole: nothing may be left
			w.remove("cni/c1")
			w.write("cni/outer:c1:eth0.record", text)
			w.log()
			w.gc().OK(t)
			for _, ifname := range []string{"DEL eth0", "DEL net1", "DEL foo0"} {
				if log := w.read("log"); strings.Count(log, ifname) != 1 {
					t.Errorf("%q: expected one %s", log, ifname)
				}
			}
		})
	}
}

// A record in which one network cannot be read: the others are detached, and it is said that this one is not.
func TestDamagedPart(t *testing.T) {
	for _, verb := range []netconf.Command{netconf.Del, netconf.GC} {
		w := newQuietWorld(t)
		w.spies("ns1/net-a", "ns1/net-b")
		w.pod("net-a,net-b")
		w.add()
		w.write("cni/outer:c1:eth0.record", strings.Replace(w.read("cni/outer:c1:eth0.record"), `"name":"net-a"`, `"name":"net/a"`, 1))
		w.log()
		do := func() skeltest.Answer {
			if verb == netconf.GC {
				return w.gc()
			}
			return w.do(verb)
		}
		do().Fails(t, netconf.CodeBadStore, `container "c1"`, "net/a")
		if got := w.log(); !strings.HasPrefix(got, "DEL net2, DEL eth0") || strings.Contains(got, "DEL net1") {
			t.Errorf("%s: %s", verb, got)
		}
		do().OK(t)
	}
}

// What is set aside of multus' records has a limit: a node that is full of them would fill its disk.
func TestSetAsideLimit(t *testing.T) {
	w := newWorld(t)
	for i := range maxAside + 4 {
		w.write(fmt.Sprintf("cni/d%02d", i), "[")
		if err := os.Chtimes(w.path(fmt.Sprintf("cni/d%02d", i)), time.Time{}, time.Unix(int64(1000+i), 0)); err != nil {
			t.Fatal(err)
		}
	}
	w.write("cni/of a person.bad", "")
	w.gc().Fails(t, netconf.CodeBadStore, `container "d00"`, `container "d19"`)
	names := w.names("cni")
	if len(names) != maxAside+1 || names[0] != "d04.bad" || names[maxAside-1] != "d19.bad" {
		t.Errorf("%q", names)
	}
}
