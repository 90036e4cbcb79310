package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Client speaks to an API server as one user. Objects are anything that encoding/json takes; a path is one
// of the API, such as /api/v1/namespaces/default/pods. A request without a deadline of its own has 30 s.
type Client struct {
	url   string
	token string // empty: the user is in the client certificate
	http  *http.Client
}

// Error is an answer of the API server other than success.
type Error struct {
	Op      string // method and path
	Code    int    // of HTTP: 404 not found, 409 exists or was changed meanwhile, 403 not allowed
	Reason  string // NotFound, AlreadyExists, Forbidden, ...
	Message string
}

// Error names the operation, the status and what the server said.
func (e *Error) Error() string {
	return fmt.Sprintf("%s: %d %s: %s", e.Op, e.Code, e.Reason, e.Message)
}

// Code is the HTTP status of an error's [Error], and 0 if there is none: no answer came.
func Code(err error) int {
	var answer *Error
	if errors.As(err, &answer) {
		return answer.Code
	}
	return 0
}

// Get reads an object, or a list, into out.
func (c *Client) Get(ctx context.Context, path string, out any) error {
	return c.call(ctx, http.MethodGet, path, "", nil, out)
}

// Create makes an object in the collection at path; what the server made of it goes into out, unless that is nil.
func (c *Client) Create(ctx context.Context, path string, object, out any) error {
	return c.call(ctx, http.MethodPost, path, "application/json", object, out)
}

// Update replaces the object at path; the answer goes into out, unless that is nil.
func (c *Client) Update(ctx context.Context, path string, object, out any) error {
	return c.call(ctx, http.MethodPut, path, "application/json", object, out)
}

// Patch merges a JSON merge patch into the object at path; the answer goes into out, unless that is nil.
func (c *Client) Patch(ctx context.Context, path string, patch, out any) error {
	return c.call(ctx, http.MethodPatch, path, "application/merge-patch+json", patch, out)
}

// Delete asks for the object at path to be deleted; a pod is gone only when its node has stopped it.
func (c *Client) Delete(ctx context.Context, path string) error {
	return c.call(ctx, http.MethodDelete, path, "", nil, nil)
}

// Watch calls each with every event of the collection at path, beginning with one of type ADDED for each object
// that is there, until each answers false, the context ends, or the server ends the watch. A query
// such as ?fieldSelector=spec.nodeName=node1 may follow the path.
func (c *Client) Watch(ctx context.Context, path string, each func(event string, object json.RawMessage) bool) error {
	separator := "?"
	if strings.Contains(path, "?") {
		separator = "&"
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	body, err := c.open(ctx, http.MethodGet, path+separator+"watch=true", "", nil)
	if err != nil {
		return err
	}
	defer body.Close()
	events := json.NewDecoder(body)
	for {
		var event struct {
			Type   string
			Object json.RawMessage
		}
		if err := events.Decode(&event); err != nil {
			return fmt.Errorf("watch %s: %w", path, err)
		}
		if !each(event.Type, event.Object) {
			return nil
		}
	}
}

func (c *Client) call(ctx context.Context, method, path, media string, in, out any) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	body, err := c.open(ctx, method, path, media, in)
	if err != nil {
		return err
	}
	defer body.Close()
	if out == nil {
		_, err = io.Copy(io.Discard, body)
		return err
	}
	if err := json.NewDecoder(body).Decode(out); err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	return nil
}

// open sends a request and returns the body of a successful answer.
func (c *Client) open(ctx context.Context, method, path, media string, in any) (io.ReadCloser, error) {
	var text []byte
	if in != nil {
		var err error
		if text, err = json.Marshal(in); err != nil {
			return nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	if media != "" {
		req.Header.Set("Content-Type", media)
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	answer, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode < 300 {
		return answer.Body, nil
	}
	defer answer.Body.Close()
	failure := &Error{Op: method + " " + path, Code: answer.StatusCode}
	if text, err = io.ReadAll(answer.Body); err != nil {
		return nil, err
	}
	var status struct{ Reason, Message string }
	if json.Unmarshal(text, &status) != nil { // not of the API's own, such as "ok" or a proxy's page
		status.Message = string(text)
	}
	failure.Reason, failure.Message = status.Reason, status.Message
	return nil, failure
}
