module github.com/cnikit/cnikit/internal/e2e

go 1.26.8

replace github.com/cnikit/cnikit => ../..

require (
	github.com/cnikit/cnikit v0.0.0-00010101000000-000000000000
	github.com/containernetworking/cni v1.3.1
	golang.org/x/sys v0.46.0
)

require (
	github.com/vishvananda/netlink v1.3.1 // indirect
	github.com/vishvananda/netns v0.0.5 // indirect
	go.opentelemetry.io/otel v1.29.0 // indirect
	go.opentelemetry.io/otel/trace v1.29.0 // indirect
)
