package netconf_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/cnikit/cnikit/netconf"
)

// parse is Parse of a call that must not fail.
func parse(t *testing.T, env call, config string) *netconf.Request {
	t.Helper()
	req, err := netconf.Parse(env.get, strings.NewReader(config))
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func TestReject(t *testing.T) {
	t.Parallel()
	req := parse(t, with("ADD"), minimal)
	req.Reject(nil)
	if err := req.Rejected(); err != nil {
		t.Fatal(err)
	}
	req.Reject(req.Invalid("type", "is %w", errors.ErrUnsupported))
	req.Reject(netconf.Errorf(11, "later"))
	check(t, req.Rejected(), 7, `configuration: type (line 1, column 41): is unsupported operation; later`)
	before := req.Rejected().Error()
	req.Reject(req.Invalid("type", "is %w", errors.ErrUnsupported))
	if err := req.Rejected(); err.Error() != before {
		t.Errorf("said twice: %v", err)
	}
	if !errors.Is(req.Rejected(), errors.ErrUnsupported) {
		t.Error("what was wrapped is lost")
	}
	// A copy's notes are its own.
	a, b := req.As(netconf.Del), req.As(netconf.Del)
	a.Reject(errors.New("a"))
	b.Reject(errors.New("b"))
	if err := a.Rejected(); !strings.HasSuffix(err.Error(), "; a") || strings.Contains(req.Rejected().Error(), "; a") {
		t.Errorf("%v, original %v", err, req.Rejected())
	}
}

func TestFor(t *testing.T) {
	t.Parallel()
	req := parse(t, with("ADD", "CNI_ARGS=A=1"), strings.TrimSuffix(minimal, "}")+`,"prevResult":{"cniVersion":"1.1.0"}}`)
	req.AddInterface(&types100.Interface{Name: "x"})
	req.Reject(errors.New("no"))
	req.Strict, req.Section = true, "ipam" // a strict plugin's delegate was refused for its caller's keys
	network, err := netconf.ParseNetwork([]byte(`{"cniVersion":"0.3.1","name":"m"}`))
	check(t, err, 0)
	d := req.For(network, "net1")
	if d.IfName != "net1" || d.Network.Name != "m" || string(d.Config) != `{"cniVersion":"0.3.1","name":"m"}` || d.Prev != nil ||
		len(d.Result.Interfaces) != 0 || d.Rejected() != nil || d.Args["A"] != "1" || d.ContainerID != "c1" || d.State != nil || d.Strict || d.Section != "" {
		t.Errorf("%+v", d)
	}
	if d := req.For(network, ""); d.IfName != "eth0" {
		t.Errorf("interface %q", d.IfName)
	}
	if req.IfName != "eth0" || req.Network.Name != "n" || req.Prev == nil || len(req.Result.Interfaces) != 1 {
		t.Errorf("the original is changed: %+v", req)
	}
	if as := req.As(netconf.Check); as.Command != netconf.Check || req.Command != netconf.Add || as.Result != req.Result || as.Prev != req.Prev {
		t.Errorf("%+v", as)
	}
}

func TestEnv(t *testing.T) {
	t.Parallel()
	req := parse(t, with("ADD", "CNI_ARGS=B=2;IgnoreUnknown=1;A=1", "CNI_PATH=/a::/b"), minimal)
	req.Environ = []string{"PATH=/bin", "CNI_COMMAND=OLD", "CNI_IFNAME=old", "CNI_FUTURE=1", "CNI_NETNS_OVERRIDE=1", "CNI_NETNS=/old", "X=CNI_Y=1", "odd"}
	before := slices.Clone(req.Environ)
	want := []string{"PATH=/bin", "CNI_FUTURE=1", "CNI_NETNS_OVERRIDE=1", "X=CNI_Y=1", "odd", "CNI_COMMAND=DEL", "CNI_CONTAINERID=c1",
		"CNI_IFNAME=eth0", "CNI_ARGS=B=2;IgnoreUnknown=1;A=1", "CNI_PATH=/a:/b"}
	del := req.As(netconf.Del)
	del.Netns = "" // an empty variable is left out
	if got := del.Env(); !slices.Equal(got, want) {
		t.Errorf("\n got %q\nwant %q", got, want)
	}
	if !slices.Equal(req.Environ, before) {
		t.Errorf("Environ is changed: %q", req.Environ)
	}
}

type closer struct {
	name string
	log  *[]string
	err  error
}

func (c *closer) Close() error {
	*c.log = append(*c.log, c.name)
	return c.err
}

func TestLocal(t *testing.T) {
	t.Parallel()
	type key string
	var log []string
	req := parse(t, with("ADD"), minimal)
	open := func(name string, err error) func() (*closer, error) {
		return func() (*closer, error) { return &closer{name, &log, err}, nil }
	}
	a, err := netconf.Local(req, key("a"), func() (*closer, error) {
		if _, err := netconf.Local(req, key("b"), open("b", io.ErrClosedPipe)); err != nil { // open may ask for another
			return nil, err
		}
		return &closer{"a", &log, nil}, nil
	})
	check(t, err, 0)
	network, err := netconf.ParseNetwork([]byte(minimal))
	check(t, err, 0)
	for _, r := range []*netconf.Request{req, req.As(netconf.Del), req.For(network, "net1")} {
		if again, err := netconf.Local(r, key("a"), open("never", nil)); err != nil || again != a {
			t.Errorf("%v, %v: expected the one that is open", again, err)
		}
	}
	if _, err := netconf.Local(req, key("c"), func() (*closer, error) { return nil, io.ErrNoProgress }); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("%v", err)
	}
	if _, err := netconf.Local(req, key("c"), open("c", io.ErrShortWrite)); err != nil {
		t.Errorf("what did not open is tried again: %v", err)
	}
	_, err = netconf.Local(req, key("a"), func() (io.Closer, error) { return nil, nil })
	check(t, err, 0) // a *closer is an io.Closer
	_, err = netconf.Local(req, key("a"), func() (net.Conn, error) { return nil, nil })
	check(t, err, 999, "netconf_test.closer, not a")
	err = req.Close()
	if got := strings.Join(log, " "); got != "c a b" {
		t.Errorf("closed %q: expected the last first", got)
	}
	if !errors.Is(err, io.ErrShortWrite) || !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("an error of Close is lost: %v", err)
	}
	if err := req.Close(); err != nil || len(log) != 3 {
		t.Errorf("again: %v, %q", err, log)
	}
	if err := new(netconf.Request).Close(); err != nil {
		t.Error(err)
	}
}

func TestLocalOpensOnce(t *testing.T) {
	t.Parallel()
	req := parse(t, with("ADD"), minimal)
	var opened, log []string
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			_, err := netconf.Local(req.As(netconf.Check), 1, func() (*closer, error) {
				opened = append(opened, "x") // guarded by Local
				return &closer{"x", &log, nil}, nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(opened) != 1 || req.Close() != nil || len(log) != 1 {
		t.Errorf("opened %q, closed %q", opened, log)
	}
}

// A request that a daemon made by hand works as one that was parsed.
func TestRequestMadeByHand(t *testing.T) {
	t.Parallel()
	req := &netconf.Request{Command: netconf.Add, Config: []byte(`{"mtu":"x","unknown":1}`)}
	_, err := netconf.Decode[common](req, nil)
	check(t, err, 6, "mtu")
	if i := req.AddInterface(&types100.Interface{Name: "e"}); i != 0 {
		t.Errorf("index %d", i)
	}
	_, n, err := net.ParseCIDR("192.0.2.0/24")
	check(t, err, 0)
	req.AddIP(0, *n, nil)
	req.AddIP(-1, *n, net.IPv4(192, 0, 2, 1))
	req.AddRoute(&types.Route{Dst: *n})
	if len(req.Result.IPs) != 2 || *req.Result.IPs[0].Interface != 0 || req.Result.IPs[1].Interface != nil || len(req.Result.Routes) != 1 {
		t.Errorf("%+v", req.Result)
	}
	if err := new(netconf.Request).Rejected(); err != nil {
		t.Error(err)
	}
}

func TestCode(t *testing.T) {
	t.Parallel()
	plain := errors.New("plain")
	for _, c := range []struct {
		err  error
		want uint
	}{
		{nil, 0}, {plain, 999}, {netconf.Errorf(7, "x"), 7}, {fmt.Errorf("wrapped: %w", netconf.Errorf(7, "x")), 7},
		{netconf.Errorf(0, "x: %w", netconf.Errorf(5, "y")), 5}, {netconf.Errorf(4, "x: %w", netconf.Errorf(5, "y")), 4},
		{netconf.Errorf(0, "x"), 999}, {netconf.ErrExists, 100}, {fmt.Errorf("x: %w", netconf.ErrDifferent), 102},
		{context.Canceled, 11}, {fmt.Errorf("x: %w", context.DeadlineExceeded), 11}, {netconf.Errorf(7, "x: %w", context.Canceled), 7},
		{types.NewError(42, "x", ""), 42}, {types.NewError(0, "x", ""), 999},
		{netconf.Join(plain, netconf.Errorf(7, "x"), netconf.Errorf(6, "y")), 7}, {netconf.Join(nil, plain), 999}, {netconf.Join(nil, nil), 0},
		{errors.Join(plain, netconf.Errorf(7, "x")), 7},
		{&os.PathError{Op: "open", Path: "x", Err: syscall.EMFILE}, 11}, {os.NewSyscallError("socket", syscall.ENFILE), 11}, // no file is left now
		{netconf.Errorf(105, "x: %w", syscall.EMFILE), 105}, {syscall.ENOENT, 999},
	} {
		if got := netconf.Code(c.err); got != c.want {
			t.Errorf("%v: %d, expected %d", c.err, got, c.want)
		}
	}
	if netconf.Join(nil, plain, nil) != plain {
		t.Error("one error is itself")
	}
	if got := netconf.Join(plain, plain).Error(); got != "plain; plain" {
		t.Errorf("%q", got)
	}
	var coded *types.Error
	detailed := &netconf.Error{Op: "op", Path: "p", Line: 1, Column: 2, Code: 7, Details: "d", Err: plain}
	if !errors.As(fmt.Errorf("x: %w", detailed), &coded) || coded.Msg != "op: p (line 1, column 2): plain" || coded.Details != "d" {
		t.Errorf("%+v", coded)
	}
	if text := (&netconf.Error{Line: 1, Column: 2, Err: plain}).Error(); text != "(line 1, column 2): plain" {
		t.Errorf("%q", text)
	}
}

func TestBefore(t *testing.T) {
	t.Parallel()
	if err := netconf.Before(t.Context(), "op"); err != nil {
		t.Error(err)
	}
	var ops []string
	ctx := netconf.WithFault(t.Context(), func(_ context.Context, op string) error {
		ops = append(ops, op)
		return io.EOF
	})
	if err := netconf.Before(ctx, "link add"); err != io.EOF || !slices.Equal(ops, []string{"link add"}) {
		t.Errorf("%v, %q", err, ops)
	}
	ctx, cancel := context.WithCancel(ctx)
	cancel()
	if err := netconf.Before(ctx, "link del"); err != context.Canceled || len(ops) != 1 {
		t.Errorf("%v, %q: what has ended is not asked", err, ops)
	}
}

func TestSince(t *testing.T) {
	t.Parallel()
	for command, since := range map[netconf.Command]string{netconf.Add: "0.1.0", netconf.Del: "0.1.0", netconf.Version: "0.1.0", netconf.Check: "0.4.0", netconf.GC: "1.1.0", netconf.Status: "1.1.0"} {
		if got := command.Since(); got != since {
			t.Errorf("%s since %s, expected %s", command, got, since)
		}
	}
}
