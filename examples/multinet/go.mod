module github.com/cnikit/cnikit/examples/multinet

go 1.26.0

require (
	github.com/cnikit/cnikit v0.0.0
	github.com/containernetworking/cni v1.3.1 // results, as the SDK has them
	golang.org/x/net v0.60.0 // kube: a proxy for the API server, by an environment that is a value
	google.golang.org/grpc v1.85.0 // tests: kubelet's service, as kubelet serves it
	google.golang.org/protobuf v1.36.12 // device: the wire format alone, of which two messages are read; tests: kubelet's messages
	k8s.io/kubelet v0.37.2 // tests: the messages of the pod-resources service
	sigs.k8s.io/yaml v1.6.0 // kube, explain: kubeconfigs and manifests
)

require (
	github.com/containernetworking/plugins v1.9.1 // indirect
	github.com/vishvananda/netlink v1.3.1 // indirect
	github.com/vishvananda/netns v0.0.5 // indirect
	go.yaml.in/yaml/v2 v2.4.4 // indirect
	golang.org/x/sys v0.48.0 // indirect
	golang.org/x/text v0.42.0 // indirect
	google.golang.org/genproto/googleapis/rpc v0.0.0-20260817212433-ac3dfec99bb1 // indirect
)

replace github.com/cnikit/cnikit => ../..
