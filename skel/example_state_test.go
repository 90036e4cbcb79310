package skel_test

import (
	"context"
	"fmt"
	"os"
	"strings"

	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/cnikit/cnikit/netconf"
	"github.com/cnikit/cnikit/skel"
)

// speed is a step: it sets the speed of a port of a switch, and gives back what it was. The switch does not remember that, so
// req.State does. Of a container that died without a DEL it is still there on GC.
type speed struct {
	ports map[string]string // what a real step asks the switch for
	port  string
	value string
}

const was = "was" // the key in req.State

func (s speed) Name() string { return "speed" }

func (s speed) set(ctx context.Context, value string) error {
	if err := netconf.Before(ctx, "switch set "+s.port); err != nil { // where tests break it
		return err
	}
	s.ports[s.port] = value
	return nil
}

func (s speed) Add(ctx context.Context, req *netconf.Request) error {
	kept, err := req.State.Load(was)
	if err != nil {
		return netconf.Unchanged(err)
	}
	if kept != nil {
		return fmt.Errorf("port %q: %w", s.port, netconf.ErrExists)
	}
	// First what is there, then the change: killed in between, DEL gives back what never changed.
	if err := req.State.Save(was, []byte(s.ports[s.port])); err != nil {
		return err
	}
	req.AddInterface(&types100.Interface{Name: req.IfName, Sandbox: req.Netns})
	return s.set(ctx, s.value)
}

func (s speed) Check(_ context.Context, _ *netconf.Request) error {
	if is := s.ports[s.port]; is != s.value {
		return fmt.Errorf("%w: port %q has speed %q, expected %q", netconf.ErrDifferent, s.port, is, s.value)
	}
	return nil
}

func (s speed) Del(ctx context.Context, req *netconf.Request) error {
	return s.giveBack(ctx, req.State)
}

func (s speed) giveBack(ctx context.Context, kept netconf.Recorder) error {
	value, err := kept.Load(was)
	if err != nil || value == nil {
		return err
	}
	if err := s.set(ctx, string(value)); err != nil {
		return err
	}
	return kept.Forget(was)
}

// GC makes it a Collector.
func (s speed) GC(ctx context.Context, req *netconf.Request) error {
	stale, ok := req.State.(netconf.StaleRecorder)
	if !ok {
		return nil // not under skel
	}
	return stale.Each(func(containerID, _ string, kept netconf.Recorder) error {
		fmt.Println("collects what is left of", containerID)
		return s.giveBack(ctx, kept)
	})
}

// Status makes it a Prober.
func (s speed) Status(context.Context, *netconf.Request) error {
	if _, ok := s.ports[s.port]; !ok {
		return netconf.Errorf(netconf.CodePluginNotAvailable, "port %q: the switch has no such port", s.port)
	}
	return nil
}

// switched serves calls by a plugin of that step, with more keys in the configuration.
func switched(ports map[string]string, port string) (serve func(verb, more string), done func(), err error) {
	dir, err := os.MkdirTemp("", "example")
	p := skel.Plugin[struct{}]{Name: "switched", Kind: skel.Meta, RunDir: dir,
		Steps: func(*netconf.Request, *struct{}) skel.Steps { return skel.Steps{speed{ports, port, "10G"}} }}
	serve = func(verb, more string) {
		env := []string{"CNI_COMMAND=" + verb, "CNI_CONTAINERID=c1", "CNI_NETNS=/proc/self/ns/net", "CNI_NETNS_OVERRIDE=1", "CNI_IFNAME=eth0", "CNI_PATH=/opt/cni/bin"}
		var out strings.Builder
		exit := p.Run(context.Background(), skel.IO{Env: env, Stdin: strings.NewReader(`{"cniVersion":"1.1.0","name":"net","type":"switched"` + more + `}`), Stdout: &out, Stderr: os.Stderr})
		fmt.Println(verb, "exit status", exit, ports)
		if exit != 0 {
			fmt.Println(out.String())
		}
	}
	done = func() {
		if err := os.RemoveAll(dir); err != nil {
			fmt.Println(err)
		}
	}
	return serve, done, err
}

// What the kernel cannot remember is kept in req.State from ADD to DEL.
func Example_state() {
	serve, done, err := switched(map[string]string{"p1": "1G"}, "p1")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer done()
	serve("ADD", "")
	serve("DEL", "")
	serve("DEL", "")
	// Output:
	// ADD exit status 0 map[p1:10G]
	// DEL exit status 0 map[p1:1G]
	// DEL exit status 0 map[p1:1G]
}

// A step that is a Collector takes away what containers have left that died without a DEL.
func ExampleCollector() {
	serve, done, err := switched(map[string]string{"p1": "1G"}, "p1")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer done()
	serve("ADD", "")
	serve("GC", `,"cni.dev/valid-attachments":[{"containerID":"c1","ifname":"eth0"}]`)
	serve("GC", `,"cni.dev/valid-attachments":[]`)
	// Output:
	// ADD exit status 0 map[p1:10G]
	// GC exit status 0 map[p1:10G]
	// collects what is left of c1
	// GC exit status 0 map[p1:1G]
}

// A step that is a Prober says whether an ADD could be served.
func ExampleProber() {
	serve, done, err := switched(map[string]string{"p1": "1G"}, "p2")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer done()
	serve("STATUS", "")
	// Output:
	// STATUS exit status 1 map[p1:1G]
	// {
	//     "cniVersion": "1.1.0",
	//     "code": 50,
	//     "msg": "speed: port \"p2\": the switch has no such port"
	// }
}
