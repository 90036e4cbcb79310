// Command pause is the program of the containers of tests. It waits for SIGTERM or SIGINT; with arguments it
// does more:
//
//	pause -listen ADDR   answers each TCP connection to ADDR with a line: "LOCAL REMOTE", the addresses as it sees them
//	pause -dial ADDR     connects to ADDR, prints the line that is answered, and ends
package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "pause:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) == 2 && args[0] == "-dial":
		return dial(args[1])
	case len(args) == 2 && args[0] == "-listen":
		listener, err := net.Listen("tcp", args[1])
		if err != nil {
			return err
		}
		go answer(listener)
	case len(args) > 0:
		return fmt.Errorf("arguments %q: expected -listen ADDR or -dial ADDR", args)
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	<-stop
	return nil
}

func answer(listener net.Listener) {
	for {
		c, err := listener.Accept()
		if err != nil {
			fmt.Fprintln(os.Stderr, "pause:", err)
			return
		}
		fmt.Fprintln(c, c.LocalAddr(), c.RemoteAddr())
		c.Close()
	}
}

func dial(address string) error {
	c, err := net.DialTimeout("tcp", address, 5*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return err
	}
	_, err = io.Copy(os.Stdout, c)
	return err
}
