package delegate_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"

	"github.com/cnikit/cnikit/delegate"
	"github.com/cnikit/cnikit/netconf"
)

// A failed ADD is followed by the DEL of the same delegate, even when the context has ended; but a
// Go value that found its part there already, or says that it changed nothing, gets none.
func TestFailedAddIsFollowedByDel(t *testing.T) {
	t.Parallel()
	wrong := errors.New("wrong")
	_, missing := quiet().Call(t.Context(), call(t, netconf.Add, plain, t.TempDir()))
	for _, c := range []struct {
		name     string
		add, del error
		end      bool // the context ends during ADD
		verbs    string
		code     uint
		words    string
	}{
		{"success", nil, nil, false, "[ADD]", 0, ""},
		{"failure", netconf.Errorf(101, "full"), nil, false, "[ADD DEL]", 101, "full"},
		{"both fail", netconf.Errorf(101, "full"), netconf.Errorf(100, "stuck"), false, "[ADD DEL]", 101, `full; then: delegate "fake" DEL, network "net": stuck`},
		{"the context ended", wrong, nil, true, "[ADD DEL]", 999, "wrong"},
		{"exists already", netconf.Errorf(0, "eth0: %w", netconf.ErrExists), wrong, false, "[ADD]", 100, "eth0: exists already"},
		{"says that it changed nothing", fmt.Errorf("lookup: %w", netconf.Unchanged(netconf.Errorf(7, "no parent"))), wrong, false, "[ADD]", 7, "no parent"},
		{"a code 100 of another kind", types.NewError(100, "oh", ""), nil, false, "[ADD DEL]", 100, "oh"},
		{"a program of its own is missing", missing, nil, false, "[ADD DEL]", 5, "no such program"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			p := &plugin{answer: func(ctx context.Context, req *netconf.Request) error {
				if c.end && req.Command == netconf.Add {
					cancel()
				}
				if req.Command == netconf.Del {
					if _, limited := ctx.Deadline(); ctx.Err() != nil || !limited {
						t.Errorf("the DEL has no time of its own: %v", ctx.Err())
					}
					return c.del
				}
				return c.add
			}}
			result, err := delegate.Add(ctx, delegate.InProcess{Do: p.do}, call(t, netconf.Add, plain))
			if p.calls() != c.verbs {
				t.Errorf("verbs %s: expected %s", p.calls(), c.verbs)
			}
			if c.code == 0 {
				if err != nil || result == nil {
					t.Errorf("result %v, error %v", result, err)
				}
				return
			}
			wants(t, err, c.code, c.words)
			if errors.Is(err, netconf.ErrExists) != errors.Is(c.add, netconf.ErrExists) {
				t.Errorf("%v: what the DEL said must not be taken for what the ADD said", err)
			}
			var coded *types.Error
			if !errors.As(err, &coded) || !strings.Contains(coded.Msg, c.words) {
				t.Errorf("%+v: expected %q under another skel too", coded, c.words)
			}
		})
	}
}

// Whatever the code, also 100, by which azure-vnet-ipam says anything at all: from 100 on they are each
// plugin's own, and no DEL is a lease for ever. Only of a program that is not there nothing has run.
func TestFailedAddOfAProgram(t *testing.T) {
	t.Parallel()
	for _, code := range []uint{3, 100, 101, 999} {
		dir := program(t, fmt.Sprintf(`echo $CNI_COMMAND >> "$0.verbs"; cat > "$0.stdin.$CNI_COMMAND"; echo '{"code":%d,"msg":"full"}'; exit 1`, code))
		_, err := delegate.Add(t.Context(), quiet(), call(t, netconf.Add, plain, dir))
		if code == 3 {
			code = 11 // the caller's own work is still there
		}
		if wants(t, err, code, "full", "DEL"); netconf.IsUnchanged(err) {
			t.Errorf("%v: taken for an ADD that changed nothing", err)
		}
		file := filepath.Join(dir, "fake")
		if verbs := read(t, file+".verbs"); verbs != "ADD\nDEL\n" {
			t.Errorf("code %d: verbs %q", code, verbs)
		}
		if read(t, file+".stdin.DEL") != plain {
			t.Error("the DEL had another configuration")
		}
	}
	_, err := delegate.Add(t.Context(), quiet(), call(t, netconf.Add, plain, t.TempDir()))
	if wants(t, err, 5); strings.Contains(err.Error(), "DEL") {
		t.Errorf("DEL of a plugin that is not there: %v", err)
	}
}

// A Go value is held to what a program is held to, and shares nothing with its caller.
func TestInProcess(t *testing.T) {
	t.Parallel()
	address := net.IPNet{IP: net.IPv4(10, 0, 0, 3), Mask: net.CIDRMask(24, 32)}
	for _, c := range []struct {
		name, version string
		do            answer
		code          uint
		words         []string
	}{
		{"a result", "1.1.0", func(_ context.Context, req *netconf.Request) error { req.AddIP(-1, address, nil); return nil }, 0, nil},
		{"a panic", "1.1.0", func(context.Context, *netconf.Request) error { panic("ouch") }, 999, []string{"panic: ouch"}},
		{"code 3", "1.1.0", func(context.Context, *netconf.Request) error { return netconf.Errorf(3, "gone") }, 11, []string{"gone"}},
		{"a plain error", "1.1.0", func(context.Context, *netconf.Request) error { return errors.New("oh") }, 999, []string{"oh"}},
		{"upstream's error", "1.1.0", func(context.Context, *netconf.Request) error { return types.NewError(11, "later", "why") }, 11, []string{"later", "why"}},
		{"a result without an address", "1.1.0", func(_ context.Context, req *netconf.Request) error { req.AddIP(-1, net.IPNet{}, nil); return nil }, 999, []string{"ips[0].address"}},
		{"a result that 0.2.0 cannot say", "0.2.0", func(context.Context, *netconf.Request) error { return nil }, 7, []string{"0.2.0"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			req := call(t, netconf.Add, patch(t, plain, "cniVersion", `"`+c.version+`"`))
			result, err := delegate.InProcess{Do: c.do}.Call(t.Context(), req)
			if c.code != 0 {
				wants(t, err, c.code, append(c.words, `delegate "fake" ADD, network "net"`)...)
				return
			}
			if err != nil || len(result.IPs) != 1 || result.IPs[0].Address.String() != "10.0.0.3/24" {
				t.Fatalf("result %v, error %v", result, err)
			}
			if result.IPs[0].Address.IP[15] = 9; address.IP[15] != 3 || len(req.Result.IPs) != 0 {
				t.Error("the result is shared")
			}
		})
	}
}

func TestInProcessGetsItsOwnRequest(t *testing.T) {
	t.Parallel()
	config := patch(t, plain, "prevResult", `{"cniVersion":"1.1.0","ips":[{"address":"10.0.0.3/24"}],"routes":[{"dst":"0.0.0.0/0"}]}`)
	req := call(t, netconf.Check, config, "/opt")
	_, err := delegate.InProcess{Type: "named", Do: func(_ context.Context, own *netconf.Request) error {
		if own.Command != netconf.Check || own.IfName != "eth0" || own.Args["A"] != "b=c" || string(own.Config) != config || own.State != nil {
			t.Errorf("request %+v", own)
		}
		own.Args["A"], own.Config[0], own.Prev.IPs[0].Address.IP[15], own.Prev.Routes = "x", 'x', 9, nil
		own.Reject(errors.New("mine"))
		own.AddInterface(&types100.Interface{Name: "x"})
		return errors.New("oh")
	}}.Call(t.Context(), req)
	wants(t, err, 999, `delegate "named" CHECK`)
	if req.Args["A"] != "b=c" || string(req.Config) != config || req.Prev.IPs[0].Address.String() != "10.0.0.3/24" ||
		len(req.Prev.Routes) != 1 || req.Rejected() != nil || len(req.Result.Interfaces) != 0 {
		t.Errorf("the caller's request was changed: %+v", req)
	}
}

// Nothing of the request is shared with the function, whoever made it.
func TestInProcessSharesSlicesAndMaps(t *testing.T) {
	t.Parallel()
	req := call(t, netconf.GC, plain, "/opt")
	req.Environ = []string{"OWN=word"}
	req.Network.ValidAttachments = []types.GCAttachment{{ContainerID: "c1", IfName: "eth0"}}
	req.Network.RuntimeConfig = map[string]json.RawMessage{"mac": json.RawMessage(`1`)}
	_, err := delegate.InProcess{Do: func(_ context.Context, own *netconf.Request) error {
		own.Path[0], own.Environ[0] = "x", "x"
		own.Network.ValidAttachments[0].ContainerID = "x"
		own.Network.RuntimeConfig["mac"][0] = '2'
		own.Network.RuntimeConfig["new"] = nil
		return nil
	}}.Call(t.Context(), req)
	if err != nil || req.Path[0] != "/opt" || req.Environ[0] != "OWN=word" || req.Network.ValidAttachments[0].ContainerID != "c1" ||
		len(req.Network.RuntimeConfig) != 1 || string(req.Network.RuntimeConfig["mac"]) != "1" {
		t.Errorf("%v: the caller's request was changed: %q, %q, %v, %s", err, req.Path, req.Environ, req.Network.ValidAttachments, req.Network.RuntimeConfig)
	}
}

// A request that a daemon makes by hand has no Warn.
func TestPanicWithoutALog(t *testing.T) {
	t.Parallel()
	stack := ""
	for _, warn := range []func(string, ...any){nil, func(_ string, args ...any) { stack = fmt.Sprint(args...) }} {
		req := call(t, netconf.Del, plain)
		req.Warn = warn
		_, err := delegate.InProcess{Do: func(context.Context, *netconf.Request) error { panic("ouch") }}.Call(t.Context(), req)
		wants(t, err, 999, "ouch")
	}
	if !strings.Contains(stack, "plugin_test.go") {
		t.Errorf("no stack in the log: %q", stack)
	}
}

func TestCheckType(t *testing.T) {
	t.Parallel()
	for name, ok := range map[string]bool{"macvlan": true, "host-local": true, "a.b": true, "": false, ".": false, "..": false, "a/b": false, `a\b`: false, "a\x00": false} {
		if err := delegate.CheckType(name); (err == nil) != ok || err != nil && netconf.Code(err) != 7 {
			t.Errorf("%q: %v", name, err)
		}
	}
}
