// Package hostlocal gives addresses from ranges and keeps the leases in files, with the configuration keys and the
// files of the reference plugin host-local, but in the process that calls it: starting that one is half of the time
// of an ADD.
//
//	ipam.FromConfig(req, hostlocal.InProcess()) // where the configuration says host-local
//
// [Config] is the same as a step, for an IPAM plugin of one's own; examples/plugins/host-local is one.
//
// The reference plugin and this package can be used on one store at once: a file for each lease, named by its address, that
// holds the container's ID and the interface's name; last_reserved_ip.N; the lock. What it does besides: addresses that
// no host can have are never given, STATUS is an error when nothing is free, CHECK compares the leases with the
// prevResult, GC without a list releases nothing, DEL needs no ranges, a lease is there whole or not at all
// whenever the process is killed, an empty one is garbage and freed, and the addresses that the runtime asks for come
// from one place (netconf.Request.IPs) instead of from all.
//
// An index beside the leases (last_reserved_ip.cnikit-index, 128 to 384 bytes a lease) makes ADD, DEL and a DEL that finds
// nothing cost the same with 10 leases and with 50,000, also when the addresses have gone around the range: 0.1 to 0.5 ms
// here, 4 ms as a whole process. It is a cache: it can be deleted, and is never believed against a lease's file. It does
// not cover what the reference plugin has written since, and nothing on the first call or after a reboot. In a store of up
// to 300 files any call then looks at them all. In a larger one
//
//   - ADD does not wait for that: it takes the next address that is free, and does not see that the attachment has one of
//     before already, which skel's steps see by the link;
//   - DEL and CHECK do, once, unless the index and the prevResult know one lease for each set of ranges. For a DEL that
//     finds nothing there is no other way: the files' names do not say whose they are. A file whose inode and time
//     are known is not read; 5,000 take 0.03 s and 50,000 take 0.3 s; the reference plugin takes four times that, in every call.
//
// It never touches the kernel, and needs no namespace.
//
// The trap: a DEL without the dataDir that the ADD had looks into another store, finds nothing, and is content.
package hostlocal
