package kube

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cnikit/cnikit/netconf"
)

// How long things may take. The context's deadline goes before all of them.
const (
	firstPause = 50 * time.Millisecond // before the second try; each next one is twice as long
	longPause  = 2 * time.Second       // the longest
	oneTry     = 30 * time.Second      // for an answer, so that a connection that is dead is noticed
	patience   = time.Minute           // for all tries, in a context without a deadline
	dial       = 10 * time.Second      // for a connection, and for its handshake
)

// largest is above what etcd stores in an object (1.5 MiB), escaped.
const largest = 16 << 20

// Client speaks to one API server as one user. It is safe for concurrent use.
type Client struct {
	url       string // without a slash at the end
	token     string
	tokenFile string // goes before token
	http      *http.Client

	mu     sync.Mutex     // guards what follows
	events []<-chan error // on their way
	posted int            // how many there have been
}

// newHTTP makes what speaks HTTP. HTTP/2 is one connection for requests at the same time; where the server has only
// HTTP/1.1 (plain HTTP, some proxies) each takes one of its own, which is kept for the next.
func newHTTP(secure *tls.Config, proxy func(*http.Request) (*url.URL, error)) *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			TLSClientConfig: secure, Proxy: proxy, ForceAttemptHTTP2: true, TLSHandshakeTimeout: dial,
			MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute, DisableCompression: true,
			HTTP2: &http.HTTP2Config{SendPingTimeout: dial, PingTimeout: dial}, // a dead connection is noticed
		},
		// The API server redirects nothing that is asked here: whoever does is not it, and gets no token.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// bearer is the token, as it is now: kubelet replaces a pod's file every hour, and a new one is taken from the file at once.
func (c *Client) bearer() (string, error) {
	if c.tokenFile == "" {
		return c.token, nil
	}
	text, err := os.ReadFile(c.tokenFile)
	token := strings.TrimSpace(string(text))
	if err == nil && token == "" {
		err = fmt.Errorf("%q is empty", c.tokenFile)
	}
	return token, err
}

// call is one request, and how it is told of in an error.
type call struct {
	op, object   string
	method, path string
	media        string // of the body
	body         []byte
	once         bool // no further tries
	repeated     int  // a status that is success at a further try: the one before was served, and its answer lost
}

// do makes a request, again and again where that can help, and reads the answer into out, unless that is nil.
func (c *Client) do(ctx context.Context, r call, out any) error {
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	pause := firstPause
	for tries := 1; ; tries++ {
		wait, err := c.try(ctx, r, out)
		if err == nil {
			return nil
		}
		err.Tries = tries
		if tries > 1 && r.repeated != 0 && err.Status == r.repeated {
			return nil
		}
		if wait < 0 || r.once {
			return err
		}
		wait = cmp.Or(wait, pause)
		pause = min(2*pause, longPause)
		// A pause beyond the deadline is no use to anybody: what is left of the time is the caller's.
		if deadline, _ := ctx.Deadline(); time.Until(deadline) < wait {
			return err
		}
		select {
		case <-ctx.Done():
			err.Err = fmt.Errorf("%w: %w", err.Err, context.Cause(ctx))
			return err
		case <-time.After(wait):
		}
	}
}

// try makes a request once. With an error it says when to try again: not at all below 0, soon at 0.
func (c *Client) try(ctx context.Context, r call, out any) (time.Duration, *Error) {
	failed := &Error{Op: r.op, Object: r.object, code: netconf.CodeTryAgainLater}
	ctx, cancel := context.WithTimeout(ctx, oneTry)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, r.method, c.url+r.path, bytes.NewReader(r.body))
	if err != nil {
		failed.Err, failed.code = err, netconf.CodeInvalidNetworkConfig
		return -1, failed
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", "multinet")
	if r.media != "" {
		req.Header.Set("Content-Type", r.media)
	}
	token, err := c.bearer()
	if err != nil {
		failed.Err, failed.code = err, netconf.CodeIOFailure
		return -1, failed
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := c.http.Do(req)
	if err != nil {
		return unanswered(failed, err), failed
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, largest+1))
	if err != nil {
		return unanswered(failed, err), failed
	}
	if answer.StatusCode/100 != 2 {
		return refused(failed, answer, text), failed
	}
	if len(text) > largest {
		err = fmt.Errorf("the answer has more than %d bytes", largest)
	} else if out != nil {
		err = json.Unmarshal(text, out)
	}
	if err != nil {
		failed.Err = fmt.Errorf("%w: what answers is no API server: %w", ErrUnavailable, err)
		return -1, failed
	}
	return 0, nil
}

// unanswered completes the error of a request without an answer, and says when to try again.
func unanswered(failed *Error, err error) time.Duration {
	failed.Err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	var certificate *tls.CertificateVerificationError
	var system x509.SystemRootsError
	if errors.As(err, &certificate) || errors.Is(err, http.ErrSchemeMismatch) || errors.As(err, &system) {
		failed.code = netconf.CodeInvalidNetworkConfig
		return -1
	}
	return 0
}

// refused completes the error of an answer that is none of success, and says when to try again.
func refused(failed *Error, answer *http.Response, text []byte) time.Duration {
	var status struct {
		Reason, Message string
		Details         struct{ Causes []struct{ Field string } }
	}
	if json.Unmarshal(text, &status) != nil {
		status.Message = strings.ToValidUTF8(strings.TrimSpace(string(text[:min(len(text), 200)])), "?") // a proxy's, in HTML
	}
	failed.Status, failed.Message = answer.StatusCode, status.Message
	failed.Reason = cmp.Or(status.Reason, http.StatusText(answer.StatusCode))
	classify(failed)
	for _, cause := range status.Details.Causes {
		if cause.Field == "metadata.uid" { // of a patch for another pod: not 409, but a field that nobody may change
			failed.Err, failed.code = ErrConflict, netconf.CodeTryAgainLater
		}
	}
	switch answer.StatusCode {
	case 409:
		// Of a patch: many write to the pod (kubelet, controllers), and the server, which tries five times by itself, gave up.
		if answer.Request.Method == http.MethodPatch && !strings.Contains(status.Message, "UID in precondition") {
			failed.Err = fmt.Errorf("%w: too many write to it", ErrUnavailable)
			return 0
		}
	case 429, 500, 502, 503, 504:
		seconds, err := strconv.Atoi(answer.Header.Get("Retry-After"))
		if err != nil || seconds < 0 {
			return 0 // none, or a date
		}
		return time.Duration(min(seconds, 3600)) * time.Second
	}
	return -1
}

// Ready asks the API server once, without trying again, whether it serves requests: for STATUS.
func (c *Client) Ready(ctx context.Context) error {
	err := c.do(ctx, call{op: "ask readiness of", object: c.url, method: http.MethodGet, path: "/readyz", once: true}, nil)
	if errors.Is(err, ErrNotFound) {
		return nil // it answers, by which it is there; the path came with Kubernetes 1.16
	}
	return err
}
