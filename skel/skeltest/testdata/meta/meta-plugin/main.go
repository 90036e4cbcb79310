// Command meta-plugin is the plugin of package meta.
package main

import (
	"github.com/cnikit/cnikit/skel"
	"github.com/cnikit/cnikit/skel/skeltest/testdata/meta"
)

func main() { skel.Main(meta.Plugin("/var/lib/cni/meta-plugin")) }
