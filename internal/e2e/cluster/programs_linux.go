package cluster

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/cnikit/cnikit/internal/testbin"
)

// release is the version of Kubernetes that the programs say they are; go.mod of the module that pins them has
// the same one, which a test compares.
const release = "v1.37.2"

// programs are the paths of what runs a cluster.
type programs struct{ etcd, apiserver, kubelet, kubectl string }

// build builds the programs, or finds them built.
func build(t testing.TB) programs {
	t.Helper()
	major, minor, _ := strings.Cut(strings.TrimPrefix(release, "v"), ".")
	minor, _, _ = strings.Cut(minor, ".")
	version := "k8s.io/component-base/version."
	flags := "-ldflags=-s -w" +
		" -X " + version + "gitVersion=" + release + " -X " + version + "gitMajor=" + major + " -X " + version + "gitMinor=" + minor +
		" -X k8s.io/client-go/pkg/version.gitVersion=" + release
	dir := testbin.Tools(t, "internal/e2e/tools/kubernetes", []string{flags},
		"go.etcd.io/etcd/server/v3", "k8s.io/kubernetes/cmd/kube-apiserver", "k8s.io/kubernetes/cmd/kubelet", "k8s.io/kubernetes/cmd/kubectl")
	return programs{
		etcd:      filepath.Join(dir, "server"), // its package's name
		apiserver: filepath.Join(dir, "kube-apiserver"),
		kubelet:   filepath.Join(dir, "kubelet"),
		kubectl:   filepath.Join(dir, "kubectl"),
	}
}
