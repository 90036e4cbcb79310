package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

// serve makes a call as a runtime would, but in this process.
func serve(t *testing.T, verb netconf.Command, id, config string) (exit int, out string) {
	t.Helper()
	var stdout, stderr strings.Builder
	p := plugin()
	p.RunDir = t.TempDir()
	exit = p.Run(t.Context(), skel.IO{
		Env:   []string{"CNI_COMMAND=" + string(verb), "CNI_CONTAINERID=" + id, "CNI_NETNS=/run/netns/none", "CNI_IFNAME=eth0", "CNI_PATH=/none"},
		Stdin: strings.NewReader(config), Stdout: &stdout, Stderr: &stderr,
	})
	if verb == netconf.Add && exit == 0 && stderr.Len() > 0 {
		t.Errorf("%s: stderr %q", verb, &stderr)
	}
	return exit, stdout.String()
}

// The six verbs, for a namespace that does not exist, without an interface in the result; the caller's keys are no
// unknown ones.
func TestVerbs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	conf := fmt.Sprintf(`{"cniVersion":"1.1.0","name":"net","type":"macvlan","master":"p0","ipam":{"type":"host-local","dataDir":%q,"ranges":[[{"subnet":"10.0.0.0/30"}]],"routes":[{"dst":"0.0.0.0/0"}]}}`, dir)
	exit, out := serve(t, netconf.Add, "c1", conf)
	if exit != 0 || !strings.Contains(out, `"10.0.0.2/30"`) || !strings.Contains(out, `"0.0.0.0/0"`) || strings.Contains(out, "interface") {
		t.Fatalf("ADD: exit status %d: %s", exit, out)
	}
	with := strings.Replace(conf, `"name"`, `"prevResult":`+out+`,"name"`, 1)
	live := func(list string) string {
		return strings.Replace(conf, `"name"`, `"cni.dev/valid-attachments":`+list+`,"name"`, 1)
	}
	for _, c := range []struct {
		verb     netconf.Command
		id, conf string
		exit     int
		word     string
	}{
		{netconf.Check, "c1", with, 0, ""},
		{netconf.Check, "c2", with, 1, `"code": 102`},
		{netconf.Add, "c1", conf, 1, `"code": 100`},
		{netconf.Add, "c2", conf, 1, `"code": 101`},
		{netconf.Status, "", conf, 1, `"code": 50`},
		{netconf.GC, "", live(`[{"containerID":"c1","ifname":"eth0"}]`), 0, ""},
		{netconf.Check, "c1", with, 0, ""},
		{netconf.Del, "c1", strings.Replace(conf, "10.0.0.0/30", "nonsense", 1), 0, ""},
		{netconf.Del, "c1", "garbage", 0, ""},
		{netconf.Del, "c1", strings.Replace(conf, `"net"`, `"../net"`, 1), 0, ""},
		{netconf.Status, "", conf, 0, ""},
		{netconf.Add, "c2", conf, 0, `"10.0.0.2/30"`},
		{netconf.GC, "", live(`[]`), 0, ""},
		{netconf.Del, "c2", conf, 0, ""},
		{netconf.Version, "", `{"cniVersion":"1.1.0"}`, 0, "1.1.0"},
	} {
		if exit, out := serve(t, c.verb, c.id, c.conf); exit != c.exit || !strings.Contains(out, c.word) {
			t.Errorf("%s %s: exit status %d: %s: expected %d and %q", c.verb, c.id, exit, out, c.exit, c.word)
		}
	}
	if files, err := filepath.Glob(filepath.Join(dir, "net", "10.*")); err != nil || len(files) > 0 {
		t.Errorf("left behind: %v, %v", files, err)
	}
}

func TestNothingIsWrittenWhereRangesMakeNoSense(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	exit, out := serve(t, netconf.Add, "c1", fmt.Sprintf(`{"cniVersion":"1.1.0","name":"net","type":"macvlan","ipam":{"type":"host-local","dataDir":%q,"ranges":[[{"subnet":"10.0.0.0/24"}],[{"subnet":"10.0.0.0/25"}]]}}`, dir))
	if exit != 1 || strings.Count(out, "ipam.ranges[1][0]") != 1 {
		t.Errorf("exit status %d: %s", exit, out)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("%v, written %v", err, files)
	}
}
