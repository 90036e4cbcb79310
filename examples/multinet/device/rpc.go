package device

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
)

// rpc is gRPC's way to make one call with one answer (PROTOCOL-HTTP2.md of grpc/grpc): a POST over HTTP/2 whose body is a
// message behind its length, and the outcome in the trailer. The library is for all else that gRPC can do, and is started
// by every call of the plugin, also of pods without devices: 3 MB of the program and 1.1 of the 2.4 ms of its start.
type rpc struct {
	http *http.Client
}

// dial makes the client of a unix socket. Nothing is sent yet.
func dial(socket string) *rpc {
	var only http.Protocols
	only.SetUnencryptedHTTP2(true)
	return &rpc{&http.Client{Transport: &http.Transport{
		Protocols: &only,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}}
}

func (r *rpc) close() { r.http.CloseIdleConnections() }

// call makes a call: method is "/SERVICE/METHOD".
func (r *rpc) call(ctx context.Context, method string, message []byte) ([]byte, error) {
	body := append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))), message...) // 0: not compressed
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost"+method, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("TE", "trailers")
	answer, err := r.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	if err != nil {
		return nil, err
	}
	outcome := answer.Trailer
	if len(text) == 0 && answer.Header.Get("Grpc-Status") != "" {
		outcome = answer.Header // there is nothing before the trailer
	}
	status, why := outcome.Get("Grpc-Status"), outcome.Get("Grpc-Message")
	if unescaped, err := url.PathUnescape(why); err == nil {
		why = unescaped
	}
	switch {
	case len(text) > maxAnswer:
		return nil, fmt.Errorf("the answer has more than %d bytes", maxAnswer)
	case answer.StatusCode != http.StatusOK || status == "":
		return nil, fmt.Errorf("%s: what answers speaks no gRPC: %s", method, answer.Status)
	case status != "0":
		return nil, fmt.Errorf("%s: code %s: %s", method, status, why)
	case len(text) < 5 || text[0] != 0 || uint64(binary.BigEndian.Uint32(text[1:])) != uint64(len(text)-5):
		return nil, fmt.Errorf("%s: the answer is not one message", method)
	}
	return text[5:], nil
}
