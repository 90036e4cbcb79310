// Command conformance holds a CNI plugin, in any language, against what the specification and runtimes want of it:
//
//	conformance -plugin ./bin/foo -conf foo.conf [-setup script] [-json]
//
// It is for authors of plugins who want to know what they forgot, and for who has to choose a plugin, or to accept a new
// version of one. Tests in Go have the same as skeltest.Conform.
//
// It needs root, and ip, tc, nft, sysctl, ping and sh. For each requirement it makes a host of its own, in new network,
// mount and process namespaces, plays the runtime, and prints a line: pass, FAIL with the difference seen, n/a with the
// reason, or unjudged when something broke that is not the plugin's. The first requirement is that ADD works; if it fails,
// nothing else is judged, since a plugin that makes nothing leaves nothing either. The exit status is 0 if nothing
// failed, 1 if something did, 2 if the command is wrong or was interrupted.
//
// The plugin runs as root and is killed, interrupted and fed nonsense. Of the machine it sees all but the network, the
// processes, and the folders that are covered for it: /run, /var/lib/cni and those of -state.
//
// The trap: only what -state names is compared at the end, and outside of /run and /var/lib/cni only that is empty at the
// beginning. A plugin that keeps its leases elsewhere writes to the machine's own folder: what it leaks there is not seen,
// what one requirement leaves is there for the next ("exists already"), and the leases of a node that serves are among
// them. Name each folder that the plugin and its delegates write to. A daemon that the plugin talks to must be started by
// the setup script, on the new host: the machine's socket in /run is not there.
//
// A requirement that does not apply is no failure. To see that it applies to more, give the plugin more to do: an ipam
// section with ranges (status/exhausted), routes (check/route), a parent of its own (-parent). Read the n/a lines
// once for each configuration.
//
// It never changes the plugin's program, never talks to a network outside of the host that it has made, and knows no
// plugin by its name.
//
// README.md says how to read the table, and has that of the reference plugins.
package main
