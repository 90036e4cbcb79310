// Package cluster makes Kubernetes clusters for tests: a real kube-apiserver with etcd, and any number of nodes
// with containerd 2.4 and kubelet. It needs root, and nothing but the standard library and the fixtures beside it:
// objects are JSON.
//
//	api := cluster.StartAPI(t, cluster.APIOptions{})
//	n := cluster.StartNode(t, api, cluster.NodeOptions{BinDirs: dirs})
//	n.Runtime.Conf("10-pods.conflist", conflist)
//	n.WaitReady(t, true, "")
//	pod := n.RunPod(t, cluster.PodSpec{Args: []string{"-listen", ":8080"}})
//	pod.Run(t, "ping", "-c", "1", "10.1.1.1")
//	pod.Delete(t)
//
// The API server runs in the namespace of the test binary, so that the test's own clients reach it
// ([API.Kubeconfig], [API.Admin], [API.Kubectl]); it is at 127.0.0.1 and, for nodes, at an address of a bridge
// there. Each node is a machine of package node with its eth0 on that bridge. A test may have several clusters.
//
// There is no controller manager, no scheduler, no kube-proxy and no DNS, which take part in nothing that a CNI
// plugin sees. So a pod names its node; nobody makes pods of a Deployment or a DaemonSet; nobody takes the
// finalizers off, nor the objects of a deleted owner or namespace away. What pods with a service account need is
// there: the account and the authority's certificate in namespaces made by [API.Namespace] (default and
// kube-system have them), the token as a projected volume, renewed, and the API server's address inside the cluster
// ([ServiceAddress], port 443), by which a client finds it from the pods' network and from the node's. From the
// pods' network it takes a default route through the node.
//
// A plugin's daemon can run as such a pod, with the host's network, folders by hostPath, a program mounted over
// that of the image; or as a program of the node, with an [API.Account] and its kubeconfig. Kubelet's sockets are
// where they are on any machine; of the folders of a node only /run, /var/lib and /var/log are its own, and
// those below its Dir: configurations and plugins are best there, since /etc/cni and /opt/cni are the
// machine's.
//
// The programs are built from source (internal/e2e/tools/kubernetes): the first time takes minutes, then they
// are found in the user's cache. All of a cluster's state is in folders of the test and in its nodes'
// namespaces, and goes at the test's end, or when the test process is killed. Settings of the kernel that kubelet
// would change for the whole machine are hidden from it by files.
//
// The trap: methods take the testing.TB that is to fail, those of the embedded node and runtime fail the test that
// started the node.
package cluster
