// Package apitest holds the tests of the program with an API server that answers late, wrongly or not at all, and counts
// what the program asks: kubetest's. What a real one says is tested in internal/e2e/multinet.
package apitest
