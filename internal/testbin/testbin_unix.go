//go:build unix

package testbin

import (
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// Packages of internal/tools that tests ask for.
const (
	HostLocal  = "github.com/containernetworking/plugins/plugins/ipam/host-local"
	Static     = "github.com/containernetworking/plugins/plugins/ipam/static"
	DHCP       = "github.com/containernetworking/plugins/plugins/ipam/dhcp"
	Loopback   = "github.com/containernetworking/plugins/plugins/main/loopback"
	Tap        = "github.com/containernetworking/plugins/plugins/main/tap"
	Bridge     = "github.com/containernetworking/plugins/plugins/main/bridge"
	Macvlan    = "github.com/containernetworking/plugins/plugins/main/macvlan"
	VLAN       = "github.com/containernetworking/plugins/plugins/main/vlan"
	Dummy      = "github.com/containernetworking/plugins/plugins/main/dummy"
	HostDevice = "github.com/containernetworking/plugins/plugins/main/host-device"
	VRF        = "github.com/containernetworking/plugins/plugins/meta/vrf"
	CNITool    = "github.com/containernetworking/cni/cnitool"
)

// Reference builds packages of internal/tools and returns the folder that holds the programs: a CNI_PATH.
func Reference(t testing.TB, packages ...string) string {
	t.Helper()
	return Tools(t, "internal/tools", nil, packages...)
}

// Tools builds packages of a module that pins programs for tests and returns the folder that holds them.
// The module is named by its path from the root of the checkout; flags go to go build after our own, so that
// a -ldflags among them counts.
func Tools(t testing.TB, module string, flags []string, packages ...string) string {
	t.Helper()
	return build(t, filepath.FromSlash(module), flags, packages...)
}

// Plugin builds the example plugin of the given name (examples/plugins/NAME) and returns its path.
func Plugin(t testing.TB, name string) string {
	t.Helper()
	return filepath.Join(build(t, "", nil, "./examples/plugins/"+name), name)
}

// prebuilt is the environment variable that says, whatever its value, that the programs were built before.
const prebuilt = "CNIKIT_TEST_PREBUILT"

func build(t testing.TB, module string, flags []string, packages ...string) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatalf("where to build programs for tests: %v", err)
	}
	sum := fnv.New32a()
	sum.Write([]byte(root()))
	dir := filepath.Join(cache, "cnikit", fmt.Sprintf("%08x", sum.Sum32()), strings.ReplaceAll(module, string(filepath.Separator), "_")+"_bin")
	if _, ok := os.LookupEnv(prebuilt); ok {
		for _, p := range packages {
			if _, err := os.Stat(filepath.Join(dir, program(p))); err != nil {
				t.Fatalf("%s is set, and %s was not built before, as TestBuild of internal/testbin does: %v", prebuilt, p, err)
			}
		}
		return dir
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	// One build at a time: the tests of several packages run at once and would write one file.
	lock, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	args := slices.Concat([]string{"build", "-C", filepath.Join(root(), module), "-trimpath", "-ldflags=-s -w", "-o", dir + "/"}, flags, packages)
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %v: %v\n%s", packages, err, out)
	}
	return dir
}

// version is the end of the path of a module from its second major version on: it names no program.
var version = regexp.MustCompile(`/v[0-9]+$`)

// program is the name that go build gives to the program of a package.
func program(pkg string) string { return path.Base(version.ReplaceAllString(pkg, "")) }

// root is the root of the module, from where this file stands.
func root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(filepath.Dir(file)))
}
