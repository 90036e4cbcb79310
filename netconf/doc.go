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
//   - All errors of a configuration are reported together, not the first one alone, and one field
//     that does not decode leaves the others as they were given.
//   - DEL and GC are read leniently: a configuration that no longer makes sense must not keep an
//     attachment alive. What does not decode is warned about and left at its default.
//   - Numbers, key order and unknown keys of a configuration are never changed: [Patch] edits bytes.
//
// The package touches bytes only: no kernel, no file, no process, no clock, no os.Getenv.
//
// The one trap: [Request.Config] is the configuration as received. A step that changes the
// configuration for a delegate makes a new request with [Request.For]; it does not write to Config.
package netconf
