// Command conformance holds a CNI plugin, in any language, against what the specification and runtimes want of it:
//
//	conformance -plugin ./bin/foo -conf foo.conf [-setup script] [-json]
//
// It needs root, and ip, nft and ping. For each requirement it makes a host of its own (network, mount and process
// namespaces: nothing on the machine is touched), plays the runtime, and prints a line: pass, FAIL with the difference
// seen, or n/a with the reason. The exit status is 0 if nothing failed, 1 if something did, 2 if the command is wrong.
//
// README.md says how to read it, and what the reference plugins' tables are.
package main
