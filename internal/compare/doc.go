// Package compare holds package delegate against upstream's libcni and invoke, which the root module must not link:
// the same networks go through both, each call of a plugin is recorded by a spy, and what differs must stand in
// one table with its reason. Its benchmarks measure both sides. And it tries delegate.Step with a reference plugin
// that the root module's tools do not pin.
//
//	go test ./...
//	go test -run '^$' -bench . -benchtime 2s ./...
package compare
