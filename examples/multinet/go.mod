module github.com/cnikit/cnikit/examples/multinet

go 1.26

require (
	github.com/cnikit/cnikit v0.0.0
	github.com/containernetworking/cni v1.3.1
)

replace github.com/cnikit/cnikit => ../..
