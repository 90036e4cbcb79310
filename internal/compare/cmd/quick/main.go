// Command quick is the plugin of package quick as a program.
package main

import (
	"os"

	"github.com/cnikit/cnikit/internal/compare/quick"
	"github.com/cnikit/cnikit/skel"
)

func main() { skel.Main(quick.Plugin(os.Getenv(quick.RunDir))) }
