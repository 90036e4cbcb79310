package cluster

import (
	"errors"
	"fmt"
	"testing"
)

// NetworkAttachments makes the kind NetworkAttachmentDefinition (group k8s.cni.cncf.io, version v1) known to
// the API server and waits until it is served. It is the kind of the Kubernetes network plumbing group's
// standard for pods with several networks: an object has at most one key in its spec, config, which is a
// network configuration or list as a string.
func (a *API) NetworkAttachments(t testing.TB) {
	t.Helper()
	const group, plural = "k8s.cni.cncf.io", "network-attachment-definitions"
	text := Object{"type": "string"}
	definition := Object{
		"metadata": Object{"name": plural + "." + group},
		"spec": Object{
			"group": group, "scope": "Namespaced",
			"names": Object{"plural": plural, "singular": "network-attachment-definition", "kind": "NetworkAttachmentDefinition", "shortNames": []string{"net-attach-def"}},
			"versions": []Object{{
				"name": "v1", "served": true, "storage": true,
				"schema": Object{"openAPIV3Schema": Object{"type": "object", "properties": Object{
					"spec": Object{"type": "object", "properties": Object{"config": text}},
				}}},
			}},
		},
	}
	const definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	if err := a.Admin.Create(t.Context(), definitions, definition, nil); err != nil {
		t.Fatal(err)
	}
	err := eventually(t.Context(), func() error {
		var found struct {
			Status struct{ Conditions []Condition }
		}
		if err := a.Admin.Get(t.Context(), definitions+"/"+plural+"."+group, &found); err != nil {
			return err
		}
		for _, c := range found.Status.Conditions {
			if c.Type == "NamesAccepted" && c.Status == "False" {
				return errors.Join(errFinal, errors.New(c.Message))
			}
			if c.Type == "Established" && c.Status == "True" {
				return a.Admin.Get(t.Context(), "/apis/"+group+"/v1/"+plural, nil)
			}
		}
		return fmt.Errorf("%v is not served: %v", plural, found.Status.Conditions)
	})
	if err != nil {
		t.Fatal(err)
	}
}
