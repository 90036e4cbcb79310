module github.com/cnikit/cnikit/examples/multinet

go 1.26

require github.com/cnikit/cnikit v0.0.0

replace github.com/cnikit/cnikit => ../..
