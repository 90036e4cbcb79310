package kube

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/cnikit/cnikit/netconf"
)

// How long an event may take, and its message be. A call's answer waits for its events: one that says that the API
// server is not there must not wait the whole call for it.
const (
	eventPatience = 5 * time.Second
	longestText   = 1024 // the API's own limit for a note
)

// Event posts an event about a pod, without waiting for it: type_ is Normal or Warning, reason one word. A message
// above 1 KiB is cut. ctx is of its request, which has 5 s with all tries. See Flush.
func (c *Client) Event(ctx context.Context, pod *Pod, type_, reason, message string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	posted := make(chan error, 1)
	c.events = append(c.events, posted)
	c.posted++
	number := c.posted
	// Asked here, and not in the goroutine: a hook that panics is the caller's panic, which skel rolls back.
	if err := netconf.Before(ctx, "post event "+reason+" of pod "+pod.Namespace+"/"+pod.Name); err != nil {
		posted <- err
		return
	}
	go func() { posted <- c.post(ctx, pod, number, type_, reason, message) }()
}

// post posts an event. Its name is the same at all tries, so that it is there once.
func (c *Client) post(ctx context.Context, pod *Pod, number int, type_, reason, message string) error {
	op, object := "post event "+reason+" of pod", pod.Namespace+"/"+pod.Name
	now := time.Now()
	name := fmt.Sprintf("%s.%x.%d", pod.Name, now.UnixNano(), number)
	path, err := objectPath("/api/v1", "events", pod.Namespace, name)
	if err != nil {
		return fileError(op, object, netconf.CodeInvalidNetworkConfig, err)
	}
	if len(message) > longestText {
		message = strings.ToValidUTF8(message[:longestText-3], "") + "..."
	}
	at := now.UTC().Format(time.RFC3339)
	body, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Event", "metadata": map[string]string{"name": name, "namespace": pod.Namespace},
		"involvedObject": map[string]string{"apiVersion": "v1", "kind": "Pod", "namespace": pod.Namespace, "name": pod.Name, "uid": pod.UID},
		"type":           type_, "reason": reason, "message": message, "count": 1, "firstTimestamp": at, "lastTimestamp": at,
		"source": map[string]string{"component": "multinet", "host": pod.Node}, "reportingComponent": "multinet", "reportingInstance": pod.Node,
	})
	if err != nil {
		return fileError(op, object, netconf.CodeInternal, err)
	}
	ctx, cancel := context.WithTimeout(ctx, eventPatience)
	defer cancel()
	return c.do(ctx, call{
		op: op, object: object, method: http.MethodPost, path: strings.TrimSuffix(path, "/"+name), media: "application/json", body: body,
		repeated: http.StatusConflict,
	}, nil)
}

// Flush waits until all events so far are posted, or ctx ends, and returns what went wrong with them.
func (c *Client) Flush(ctx context.Context) error {
	c.mu.Lock()
	events := c.events
	c.events = nil
	c.mu.Unlock()
	var errs []error
	for _, posted := range events {
		select {
		case err := <-posted:
			errs = append(errs, err)
		case <-ctx.Done():
			return netconf.Join(append(errs, fmt.Errorf("events are not posted yet: %w", context.Cause(ctx)))...)
		}
	}
	return netconf.Join(errs...)
}
