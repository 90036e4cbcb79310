// Package e2e holds, in a module of its own, real container runtimes as clients of our plugins: fixtures
// that any test of the project may use, and the tests of the example plugins with them.
package e2e
