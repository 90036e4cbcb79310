package cluster

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// network is what an API server and its nodes reach each other by: a bridge in the namespace of the test
// binary, where the API server runs, with a link to each node.
type network struct {
	bridge string
	prefix string // the first three octets of its /24
}

// networks is how many clusters a test binary can have at once: the third octet of 198.18.0.0/16, which is
// set aside for benchmarks of network devices, and so is nobody's pod network.
const networks = 256

// newNetwork makes a network that no other cluster of this namespace has. The bridge's name is what is
// taken: the kernel gives each to one.
func newNetwork(t testing.TB) *network {
	t.Helper()
	for i := range networks {
		n := &network{bridge: fmt.Sprintf("nodes%d", i), prefix: fmt.Sprintf("198.18.%d", i)}
		if err := run("ip", "link", "add", "name", n.bridge, "type", "bridge"); err != nil {
			if strings.Contains(err.Error(), "File exists") {
				continue
			}
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := run("ip", "link", "delete", n.bridge); err != nil {
				t.Error(err)
			}
		})
		for _, args := range [][]string{
			{"address", "add", n.address(1) + "/24", "dev", n.bridge},
			{"link", "set", n.bridge, "up"},
		} {
			if err := run("ip", args...); err != nil {
				t.Fatal(err)
			}
		}
		return n
	}
	t.Fatalf("%d clusters at once are too many", networks)
	return nil
}

// address is the network's nth address; the first is the API server's.
func (n *network) address(i int) string { return fmt.Sprintf("%s.%d", n.prefix, i) }

// reservePort takes a TCP port for the time of the test. Nothing listens on it until a program does that sets
// SO_REUSEPORT, as the API server and etcd do when told: they can end and come again, and nobody, not even an
// outgoing connection, gets the port in between.
func reservePort(t testing.TB) int {
	t.Helper()
	port, fd, err := bindAny()
	if err != nil {
		t.Fatalf("reserve a port: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Close(fd); err != nil {
			t.Error(err)
		}
	})
	return port
}

func bindAny() (port, fd int, err error) {
	fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, 0, err
	}
	err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
	if err == nil {
		err = unix.Bind(fd, &unix.SockaddrInet4{})
	}
	var name unix.Sockaddr
	if err == nil {
		name, err = unix.Getsockname(fd)
	}
	if err != nil {
		return 0, 0, errors.Join(err, unix.Close(fd))
	}
	return name.(*unix.SockaddrInet4).Port, fd, nil
}

// run runs a short command; its error has what the command printed.
func run(name string, args ...string) error {
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
