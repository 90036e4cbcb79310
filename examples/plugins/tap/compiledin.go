//go:build hostlocal

package main

import (
	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/ipam/hostlocal"
)

// compiledIn are the IPAM plugins that need no program. With host-local among them an ADD takes half the time; a program
// of that name in CNI_PATH, maybe another make of it, is then not asked: hence the tag.
func compiledIn() []delegate.InProcess { return []delegate.InProcess{hostlocal.InProcess()} }
