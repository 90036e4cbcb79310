module github.com/cnikit/cnikit

go 1.25.0

require (
	github.com/containernetworking/cni v1.3.1
	github.com/containernetworking/plugins v1.9.1
	github.com/vishvananda/netlink v1.3.1
	golang.org/x/sys v0.46.0
)

require github.com/vishvananda/netns v0.0.5 // indirect
