// Package filekey names the file that a room keeps for one attachment: skel's state, delegate's records.
//
//	key := filekey.Join(network, containerID, ifname) // "lan:4f2a...:eth0"
//	parts, ok := filekey.Split(key, 3)
//
// The parts are names of CNI's (netconf.CheckName, netconf.CheckIfName), none of which can have a ':' or '/', so that two
// attachments cannot share a file. Where a part may be no name, as on DEL, whose configuration is not refused, the caller
// asks for [Hashed]: "../x" is a path.
//
// A name that would be too long for a file system ends in a hash of the whole (FNV, 64 bits): two of those may share a
// file, and whoever reads one has to see in it whose it is.
package filekey
