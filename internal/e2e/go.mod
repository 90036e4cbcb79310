module github.com/cnikit/cnikit/internal/e2e

go 1.26.8

replace github.com/cnikit/cnikit => ../..

require github.com/cnikit/cnikit v0.0.0-00010101000000-000000000000
