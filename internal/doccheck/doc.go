// Package doccheck checks the documentation of every package of this module. Its test is the check;
// the gate runs it with all the others:
//
//	go test ./internal/doccheck
//
// It is for those who work on the module, and answers with the place and what is wanted:
//
//   - every package has a doc.go whose package comment has 15 to 60 lines: what it is, for whom, what it
//     never does, the one trap. Shorter says too little to choose by, longer is not read. A program, and what is
//     internal or of an example, also one with a module of its own, needs a comment only;
//   - every exported function, type, method, constant and variable has a comment, a group of
//     constants or variables one at least above the group or beside each; methods that interfaces of the
//     standard library define (Error, String, ...) say enough by their name;
//   - every room, the top-level packages, has a compiled Example: the way in for somebody new.
//
// The trap: it reads files, all of them, those for other operating systems too, so it does not see that an example
// is not run. Examples with an Output comment are.
package doccheck
