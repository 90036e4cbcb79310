// Package state keeps what the kernel cannot remember: bytes by key, one file for each attachment, from its ADD
// to its DEL. It is what stands behind netconf.Request.State in a plugin made with skel, which finds and forgets
// the records by itself; a daemon that serves calls of its own, or looks after those of a plugin, imports it alone.
//
//	store := state.Store{Dir: "/run/cnikit"}
//	record := store.Open(ctx, state.Attachment{Plugin: "eni", Network: "net", ContainerID: id, IfName: "eth0"}, netconf.Add)
//	err := record.Save("device", []byte("ens5"))
//
// What it holds to:
//
//   - A file is written beside the old one and moved into its place: a reader sees the old record or the new one.
//     On a full disk Save fails with code 105, and the old record is as it was. A plugin that is killed in between
//     leaves a file that the next Save, the DEL or the GC of the attachment takes away. On DEL and GC to forget never
//     fails: what cannot be written, or unlinked from a read-only disk, is warned of and stays for a later one.
//   - A record that cannot be read (half-written, garbage, of a newer version of this package) keeps no attachment
//     alive and none from being made: on ADD, DEL and GC it is moved aside, to NAME.state.bad, one for each attachment,
//     with a warning, and they go on without it; on CHECK it is an error with code 105. A folder that stands in the
//     place of a file is moved aside too, with all that is in it, to NAME.state.bad.1 and so on, and stays there.
//   - A record of another attachment under the same name, which takes two long names with the same hash, is never
//     touched.
//   - The names of the files are made of the attachment's, so [Store.Stale] finds those of a network that have no
//     living attachment, the damaged ones too, and [Store.Find] that of a DEL which names no network.
//
// It never locks: an attachment has one writer at a time. In a plugin that is skel's lock, in a daemon the daemon's
// own; a [Record] may be used by several goroutines. It never touches anything outside its folder.
//
// The trap: the folder is meant to be on a tmpfs, as /run is, for an attachment does not outlive a reboot and
// neither should its record. Elsewhere the daemon must empty it at the start of the machine.
package state
