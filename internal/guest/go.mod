module github.com/cnikit/cnikit/internal/guest

go 1.25.0

require golang.org/x/sys v0.46.0
