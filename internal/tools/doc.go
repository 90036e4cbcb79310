// Package tools pins, in a module of its own, the programs that the project is checked with and
// tested against: staticcheck, the runtime library's cnitool, and the reference IPAM plugins. Nothing of
// it can get into a plugin. Build one with
//
//	go build -C internal/tools -o DIR honnef.co/go/tools/cmd/staticcheck
package tools
