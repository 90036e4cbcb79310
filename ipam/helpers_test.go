package ipam_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/netconf"
)

const withIPAM = `{"cniVersion":"1.1.0","name":"net","type":"main","n":9007199254740993, "ipam": {"type":"fake","subnet":"10.0.0.0/24"}}`

// book is an IPAM plugin's program with a store: the file "lease.CONTAINER" in its folder. Each call is
// noted in the file "calls", the last configuration of each verb in "stdin.VERB". Its ADD says what
// the file "answer" holds.
const book = `cd "${0%/*}"; echo "$CNI_COMMAND $CNI_CONTAINERID $CNI_NETNS $CNI_IFNAME $CNI_ARGS" >> calls; cat > stdin.$CNI_COMMAND
case $CNI_COMMAND in
ADD) echo > lease.$CNI_CONTAINERID; cat answer;;
DEL) rm -f lease.$CNI_CONTAINERID;;
esac
if [ -e fail.$CNI_COMMAND ]; then cat fail.$CNI_COMMAND; exit 1; fi`

// program puts a script as the IPAM plugin "fake", and its answer, into a new folder.
func program(t *testing.T, script, answer string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	write(t, filepath.Join(dir, "fake"), "#!/bin/sh\n"+script+"\n")
	write(t, filepath.Join(dir, "answer"), answer)
	return dir
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
}

// calls lists the verbs that the program was called with.
func calls(t *testing.T, dir string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "calls"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	var verbs []string
	for line := range strings.Lines(string(data)) {
		verb, _, _ := strings.Cut(line, " ")
		verbs = append(verbs, verb)
	}
	return strings.Join(verbs, " ")
}

// leases lists what the program's store holds.
func leases(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "lease.*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// call makes a request, and a log of its warnings.
func call(t *testing.T, command netconf.Command, config string, dirs ...string) (*netconf.Request, *strings.Builder) {
	t.Helper()
	env := map[string]string{"CNI_COMMAND": string(command), "CNI_CONTAINERID": "c1", "CNI_NETNS": "/run/netns/none",
		"CNI_IFNAME": "eth0", "CNI_ARGS": "IgnoreUnknown=1;LABEL=YWJj==;K8S_POD_UID=", "CNI_PATH": strings.Join(dirs, ":")}
	if command == netconf.Del {
		delete(env, "CNI_NETNS")
	}
	req, err := netconf.Parse(func(key string) string { return env[key] }, strings.NewReader(config))
	if err != nil {
		t.Fatal(err)
	}
	log := &strings.Builder{}
	req.Warn = func(msg string, args ...any) { fmt.Fprintln(log, append([]any{msg}, args...)...) }
	req.Environ = []string{"PATH=" + os.Getenv("PATH")}
	return req, log
}
