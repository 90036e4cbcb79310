// Package guest runs programs, test binaries as a rule, as root in a kernel of their own. It is scripts and a small
// process 1 (init): run is the runner, setup fetches the kernels, tests runs the tests of many packages in one boot.
// README.md says how to use them; here are only their tests.
package guest
