package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

// Object is an object of the API, as JSON has it.
type Object = map[string]any

// kubeconfig is the file of a client: JSON, which YAML takes.
func kubeconfig(url string, authority *authority, c *credential, token string) []byte {
	user := Object{"token": token}
	if c != nil {
		user = Object{"client-certificate-data": c.cert, "client-key-data": c.key} // encoding/json writes base64
	}
	text, err := json.MarshalIndent(Object{
		"apiVersion": "v1", "kind": "Config", "current-context": "it",
		"clusters": []Object{{"name": "it", "cluster": Object{"server": url, "certificate-authority-data": authority.pem}}},
		"users":    []Object{{"name": "it", "user": user}},
		"contexts": []Object{{"name": "it", "context": Object{"cluster": "it", "user": "it"}}},
	}, "", "  ")
	if err != nil {
		panic(err) // these types cannot fail
	}
	return text
}

// Account is a service account with its rights, as a program has it.
type Account struct {
	Namespace, Name string
	Token           string  // good for an hour
	Client          *Client // speaks as the account
	api             *API
}

// Rule is what an account may do, as RBAC has it.
type Rule struct {
	APIGroups []string `json:"apiGroups"` // "" is the core group
	Resources []string `json:"resources"` // pods, pods/status, ...
	Verbs     []string `json:"verbs"`     // get, list, watch, create, update, patch, delete
}

// Account makes a service account that may do what the rules say, in all namespaces, and nothing else. It waits
// until the API server knows that.
func (a *API) Account(t testing.TB, namespace, name string, rules ...Rule) *Account {
	t.Helper()
	account := &Account{Namespace: namespace, Name: name, api: a}
	full := namespace + ":" + name
	rbac := "/apis/rbac.authorization.k8s.io/v1/"
	if rules == nil {
		rules = []Rule{}
	}
	var token struct{ Status struct{ Token string } }
	err := errors.Join(
		a.Admin.Create(t.Context(), "/api/v1/namespaces/"+namespace+"/serviceaccounts", Object{"metadata": Object{"name": name}}, nil),
		a.Admin.Create(t.Context(), rbac+"clusterroles", Object{"metadata": Object{"name": full}, "rules": rules}, nil),
		a.Admin.Create(t.Context(), rbac+"clusterrolebindings", Object{
			"metadata": Object{"name": full},
			"roleRef":  Object{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": full},
			"subjects": []Object{{"kind": "ServiceAccount", "name": name, "namespace": namespace}},
		}, nil),
		a.Admin.Create(t.Context(), "/api/v1/namespaces/"+namespace+"/serviceaccounts/"+name+"/token",
			Object{"kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "spec": Object{}}, &token),
	)
	account.Token = token.Status.Token
	if err == nil {
		account.Client, err = a.client(nil, account.Token)
	}
	for _, rule := range rules {
		if err == nil {
			err = eventually(t.Context(), func() error { return account.holds(t.Context(), rule) })
		}
	}
	if err != nil {
		t.Fatalf("service account %q: %v", full, err)
	}
	return account
}

// holds asks whether the account has a rule: the server learns of it a moment after it was written.
func (c *Account) holds(ctx context.Context, rule Rule) error {
	resource, sub, _ := strings.Cut(rule.Resources[0], "/")
	asked := Object{"group": rule.APIGroups[0], "resource": resource, "subresource": sub, "verb": rule.Verbs[0]}
	var answer struct {
		Status struct {
			Allowed bool
			Reason  string
		}
	}
	review := Object{"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": Object{"resourceAttributes": asked}}
	err := c.Client.Create(ctx, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review, &answer)
	if err == nil && !answer.Status.Allowed {
		err = fmt.Errorf("it may not yet %v: %s", asked, answer.Status.Reason)
	}
	return err
}

// Kubeconfig writes the file of a client that runs on a node, or in the test's namespace, as the account.
func (c *Account) Kubeconfig(t testing.TB, path string) {
	t.Helper()
	if err := os.WriteFile(path, kubeconfig(c.api.NodeURL, c.api.authority, nil, c.Token), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Namespace makes a namespace of the cluster in which pods can be created.
func (a *API) Namespace(t testing.TB, name string) {
	t.Helper()
	if err := a.Admin.Create(t.Context(), "/api/v1/namespaces", Object{"metadata": Object{"name": name}}, nil); err != nil {
		t.Fatal(err)
	}
	a.populate(t, name)
}

// populate does for a namespace what the controller manager would: pods need the default service account,
// and those with a token the authority's certificate beside it.
func (a *API) populate(t testing.TB, namespace string) {
	t.Helper()
	path := "/api/v1/namespaces/" + namespace
	create := func(ctx context.Context, kind string, object Object) error {
		err := a.Admin.Create(ctx, path+"/"+kind, object, nil)
		if Code(err) == 409 {
			return nil // from before a restart
		}
		return err
	}
	err := eventually(t.Context(), func() error { // the server makes its own namespaces a moment after it is ready
		return errors.Join(
			create(t.Context(), "serviceaccounts", Object{"metadata": Object{"name": "default"}}),
			create(t.Context(), "configmaps", Object{"metadata": Object{"name": "kube-root-ca.crt"}, "data": Object{"ca.crt": string(a.authority.pem)}}),
		)
	})
	if err != nil {
		t.Fatalf("namespace %q: %v", namespace, err)
	}
}
