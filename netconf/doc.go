// Package netconf is one call of a CNI plugin, decoded: the environment, CNI_ARGS, the network
// configuration, the prevResult; and what the plugin answers: the result, encoded in the version
// that was asked for, and the error codes.
//
// It is for everybody who reads or writes the CNI protocol: skel reads each call with it, the other
// rooms take its [Request] as the one parameter of every step, and a program that is not written
// with skel (a plugin under upstream's skel, a daemon, a runtime) can use it alone:
//
//	req, err := netconf.Parse(os.Getenv, os.Stdin)
//	conf, err := netconf.Decode(req, func() config { return config{MTU: 1500} })
//
// What it promises:
//
//   - Bad input is never a panic and never half a success. Every error says what is wrong, where
//     (a variable; a JSON path with line and column) and what was expected, and carries its CNI
//     code: errors.As finds a [*types.Error] in it, so the code is right under upstream's skel too.
//
//   - All errors of a configuration are reported together, not the first one alone, and one field
//     that does not decode leaves the others as they were given.
//
//   - DEL and GC are read leniently: a configuration that no longer makes sense must not keep an
//     attachment alive. What does not decode is warned about and left at its default.
//
//   - Numbers, key order and unknown keys of a configuration are never changed: [Patch] edits bytes.
//
//   - No error shows a value that may be a secret: of a text that cannot be what was expected it tells the
//     length, line and column, of a pair of CNI_ARGS its place, of an unknown key no text, unless it is a slip of a known one.
//
// What is asked for in several places has one order: config < CNI_ARGS < args.cni < runtimeConfig, see
// [Request.MAC] and [Request.IPs]; all that a runtime sends by capability is typed in [Request.Runtime].
//
// Where parsers of JSON differ this one does as encoding/json, and says so where it matters:
//
//   - A key given twice, at any depth: the last counts, and [Decode] warns of it; the exact spelling goes before
//     another case. GC's list given twice is refused, and so is an entry of it with two containers or interfaces.
//   - A byte-order mark, a comment, a comma at the end, NaN, anything behind the object, nothing, null or a
//     list in its place: refused (code 6, line and column).
//   - More than [MaxConfig] bytes, more than 262,144 values, more than 10,000 levels: refused (code 6). The
//     hungriest text that we know makes a call allocate 200 MB, counting what is soon free again.
//   - An integer is digits: 1.0, 1e3, "1" and what does not fit are refused (code 6), -0 is 0 where there is a
//     sign. [Quantity] takes all of these, [Duration] whole seconds or a text.
//   - NUL in a text is kept, and refused in names; what is not UTF-8, and half a surrogate pair, becomes U+FFFD in
//     what is decoded. [Request.Config] has the bytes as they came.
//
// The package touches bytes only: no kernel, no file, no process, no clock, no os.Getenv.
//
// The one trap: [Request.Config] is the configuration as received. A step that changes the
// configuration for a delegate makes a new request with [Request.For]; it does not write to Config.
package netconf
