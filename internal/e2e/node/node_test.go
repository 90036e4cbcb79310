package node

import "testing"

func TestSmoke(t *testing.T) {
	n := Start(t, Options{})
	for _, c := range []string{"ps ax", "cat /proc/self/mountinfo", "cat /proc/self/cgroup", "ip a", "hostname", "ls -la /run /var/lib /sys/class/net /sys/fs/cgroup/*", "pwd"} {
		out, err := n.Try("sh", "-c", c)
		t.Logf("%s: %v\n%s", c, err, out)
	}
}
