package skeltest_test

import "testing"

// What the Example of Walk shows works.
func TestExampleOfWalk(t *testing.T) { whateverFails(t) }
