module github.com/cnikit/cnikit/examples/multinet

go 1.26.0

require (
	github.com/cnikit/cnikit v0.0.0
	github.com/containernetworking/cni v1.3.1
)

require (
	golang.org/x/net v0.57.0 // indirect
	golang.org/x/sys v0.47.0 // indirect
	golang.org/x/tools v0.47.0 // indirect
)

replace github.com/cnikit/cnikit => ../..
