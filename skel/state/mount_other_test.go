//go:build !linux

package state_test

import "testing"

// These are for tests that need root, which are for Linux.
func mount(*testing.T, string, string)   { panic("on Linux only") }
func remount(*testing.T, string, string) { panic("on Linux only") }
func fill(*testing.T, string)            { panic("on Linux only") }
func saveForEver(string)                 { panic("on Linux only") }
