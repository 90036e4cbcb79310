// Package skel is the entry of a CNI plugin: from one description of an attachment, a short list of
// steps, it makes every verb of the specification (ADD, CHECK, DEL, GC, STATUS, VERSION) in every version
// from 0.1.0 to 1.1.0, with rollback that always runs.
//
//	func steps(req *netconf.Request, c *config) skel.Steps {
//		return skel.Steps{link.Macvlan{Parent: link.Parent{Name: c.Master}}, ipam.FromConfig(req), link.Addresses{}}
//	}
//
//	func main() { skel.Main(skel.Plugin[config]{Name: "macvlan", Steps: steps}) }
//
// What an author gets for it:
//
//   - Every check that needs no work is made before any work: also of the section ipam, where its plugin is compiled in.
//     A program of CNI_PATH checks its own section when it is called.
//   - ADD runs the steps in order. On an error, a panic, a time-out, a signal, or a result that cannot
//     be printed, what was made is taken away in reverse. A step whose error Is [netconf.ErrExists] changed
//     nothing and is left alone, so a second ADD never destroys what lives.
//   - DEL runs all steps in reverse and goes on after an error. Only CNI_COMMAND, CNI_CONTAINERID and
//     CNI_IFNAME can make it fail before that.
//   - One call at a time for an attachment, over all processes.
//   - Exactly one JSON document or none on stdout, last; errors with a true code, in the caller's version.
//   - Started by hand it explains itself, and checks configurations: see [Main]. The doc tag of a key is its
//     explanation, an example tag puts it into the example; types are described by their own errors, by
//     what stands behind "expected" in them. With one wrong example tag there is no example: [Plugin.CheckExample], in a
//     test, says which.
//   - Bytes kept for an attachment between ADD and DEL ([netconf.Request.State], made by the package state).
//   - A log, by log/slog. On stderr, which ends in the runtime's: warnings (Request.Warn, unknown keys) and the
//     error. With "log": {"file": "/var/log/x.log"} in a configuration there too, and a line at the end of
//     each call. "level" (off, error, warn, info, debug) is the file's, which has info by default, or that of
//     stderr where there is no file; debug has the begin and end of each step. A file that cannot be written fails no
//     call. Each line has the attachment, the step (empty outside of one), how long the call has run,
//     and the traceparent of TRACEPARENT; the one at the end of the call has TRACESTATE and BAGGAGE too, which can be
//     8 kB each. A line is one write; where a disk that fills takes only a part of it, that part is a line. See [Logger].
//
// [Plugin.Do] serves a call in-process, for daemons and delegates; [Plugin.Run] takes environment and
// streams as values, for tests (see the package skeltest); [Funcs] is for verbs written by hand.
//
// skel is the only room that touches the environment, the standard streams, signals and the exit code,
// and it touches nothing else but its run directory, its log (and, by hand, the files to check): no netlink, no other
// process.
//
// A step of your own must look for its part before anything else: what goes wrong before that is wrapped
// by [netconf.Unchanged], or the rollback of a second ADD takes the live attachment away (see [Step]).
//
// A panic of a step is caught, but not one in a goroutine that a step has started, which Go lets nobody else
// catch: the process ends at once with exit status 2, its stack on stderr, nothing on stdout and no rollback; the
// DEL that the runtime owes takes away what was made. Such a goroutine recovers by itself.
//
// The one trap: Plugin.Steps must be pure. It is called on DEL and GC too, with a configuration that
// may be missing most of itself, so it must not look at the world and must not dereference what may be
// absent. What depends on the world belongs into a step's Add or Check.
package skel
