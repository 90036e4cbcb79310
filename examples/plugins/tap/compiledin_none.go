//go:build !hostlocal

package main

import "github.com/cnikit/cnikit/delegate"

// compiledIn are the IPAM plugins that need no program: none, unless built with -tags hostlocal.
func compiledIn() []delegate.InProcess { return nil }
