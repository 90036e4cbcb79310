//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "conformance: needs Linux: CNI plugins are judged in network namespaces")
	os.Exit(2)
}
