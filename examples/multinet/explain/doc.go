// Package explain shows what a pod would be attached to, as a table and as a Mermaid graph, and reads the manifests that it is
// to be found out from. It is for `multinet explain`, which needs no cluster, and for whoever has a plan to show.
//
//	m, err := explain.Read(text...)            // the YAML of pods and NetworkAttachmentDefinitions
//	definition, err := m.Definition(ctx, ns, name)
//	err = explain.Table(os.Stdout, lines)
//	err = explain.Graph(os.Stdout, "ns1/web", lines)
//
// What a pod gets is decided elsewhere: the lines come from the same functions that an ADD runs, so that nothing here can
// differ from it.
//
// What a manifest says is shown as text: in a graph it cannot end its label, or add a line. The package reads no file, asks no API and checks nothing but that what it reads is YAML.
//
// The trap: YAML reads n, no, on and y as booleans. A namespace of that name is "false" here, as it is for kubectl.
package explain
