// Command fakeapi is the API server of package kubetest as a program, for demonstrations in a shell:
//
//	fakeapi -kubeconfig FILE [-listen ADDRESS] [-latency 20ms] MANIFEST...
//
// It serves the pods, NetworkAttachmentDefinitions and ResourceClaims of the manifests, over plain HTTP to who has
// the token of FILE. FILE is there when it serves. It ends with SIGTERM or SIGINT.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/cnikit/cnikit/examples/multinet/kube/kubetest"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "fakeapi:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("fakeapi", flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "`file` to write for clients")
	listen := flags.String("listen", "", "`address` and port (default 127.0.0.1 and any port)")
	latency := flags.Duration("latency", 0, "`time` that each answer takes")
	if err := flags.Parse(args); err != nil {
		return err
	}
	s, err := kubetest.Start(kubetest.Options{Listen: *listen})
	if err != nil {
		return err
	}
	defer s.Close()
	s.Latency(*latency)
	for _, path := range flags.Args() {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := s.ApplyManifest(string(text)); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	if err := s.WriteKubeconfig(*kubeconfig); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}
