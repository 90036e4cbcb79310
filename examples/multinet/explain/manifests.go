package explain

import (
	"bytes"
	"context"

	"sigs.k8s.io/yaml"

	"github.com/cnikit/cnikit/examples/multinet/kube"
	"github.com/cnikit/cnikit/netconf"
)

// Manifests are the pods and definitions of some YAML texts.
type Manifests struct {
	Pods        []*kube.Pod
	Definitions []*kube.Definition
	Others      []string // the kinds of what was passed over
}

// object is what is looked at of an object, of any kind.
type object struct {
	Kind     string   `json:"kind"`
	Items    []object `json:"items"` // of a List
	Metadata struct {
		Name, Namespace, UID string
		Annotations          map[string]string
	} `json:"metadata"`
	Spec struct {
		Config string `json:"config"`
	} `json:"spec"`
}

// Read reads texts of one or more documents each, YAML or JSON. As kubectl does it puts what names no namespace into
// "default". An error, with code 6, says which document of which text.
func Read(texts ...[]byte) (*Manifests, error) {
	m := &Manifests{}
	for i, text := range texts {
		for j, document := range documents(text) {
			var o object
			if err := yaml.Unmarshal(document, &o); err != nil {
				return nil, netconf.Errorf(netconf.CodeDecodingFailure, "manifest %d, document %d: %w", i+1, j+1, err)
			}
			m.add(o)
		}
	}
	return m, nil
}

// documents cuts a text at the lines "---".
func documents(text []byte) [][]byte {
	var all [][]byte
	var one []byte
	for line := range bytes.Lines(text) {
		if string(bytes.TrimRight(line, " \t\r\n")) == "---" {
			all, one = append(all, one), nil
			continue
		}
		one = append(one, line...)
	}
	return append(all, one)
}

func (m *Manifests) add(o object) {
	namespace := o.Metadata.Namespace
	if namespace == "" {
		namespace = "default"
	}
	switch o.Kind {
	case "Pod":
		m.Pods = append(m.Pods, &kube.Pod{Namespace: namespace, Name: o.Metadata.Name, UID: o.Metadata.UID, Annotations: o.Metadata.Annotations})
	case "NetworkAttachmentDefinition":
		m.Definitions = append(m.Definitions, &kube.Definition{Namespace: namespace, Name: o.Metadata.Name, Annotations: o.Metadata.Annotations, Config: o.Spec.Config})
	case "List":
		for _, item := range o.Items {
			m.add(item)
		}
	case "": // between two lines "---"
	default:
		m.Others = append(m.Others, o.Kind)
	}
}

// Definition returns a definition; without one of the name it is kube.ErrNotFound, as of the API server.
func (m *Manifests) Definition(_ context.Context, namespace, name string) (*kube.Definition, error) {
	for _, d := range m.Definitions {
		if d.Namespace == namespace && d.Name == name {
			return d, nil
		}
	}
	return nil, netconf.Errorf(netconf.CodeInvalidNetworkConfig, "%w: no manifest has the definition %s/%s", kube.ErrNotFound, namespace, name)
}
