module github.com/cnikit/cnikit/internal/compare

go 1.26.8

tool github.com/containernetworking/plugins/plugins/meta/tuning

require (
	github.com/cnikit/cnikit v0.0.0
	github.com/containernetworking/cni v1.3.1
)

require (
	github.com/containernetworking/plugins v1.9.1 // indirect
	github.com/pkg/errors v0.9.1 // indirect
	github.com/vishvananda/netlink v1.3.1 // indirect
	github.com/vishvananda/netns v0.0.5 // indirect
	go.opentelemetry.io/otel v1.29.0 // indirect
	go.opentelemetry.io/otel/trace v1.29.0 // indirect
	golang.org/x/sys v0.46.0 // indirect
)

replace github.com/cnikit/cnikit => ../..
