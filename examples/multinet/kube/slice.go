package kube

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/cnikit/cnikit/netconf"
)

// slice is a ResourceSlice: some of the devices of a pool.
type slice struct {
	Spec struct {
		Driver string
		Pool   struct {
			Name       string
			Generation int64
		}
		Devices []struct {
			Name       string
			Attributes map[string]struct{ String *string }
		}
	}
}

// DeviceAttributes reads what a driver of dynamic resource allocation announces of a device: the attributes that are texts,
// by their full name ("k8s.cni.cncf.io/deviceID"; one without a domain has that of the driver). It is ErrNotFound if no slice
// of the pool has the device. A server that is too old to select by
// pool answers 400: then all slices of the driver are read.
func (c *Client) DeviceAttributes(ctx context.Context, driver, pool, device string) (map[string]string, error) {
	list, err := c.slices(ctx, driver, "spec.driver="+driver+",spec.pool.name="+pool)
	var refused *Error
	if errors.As(err, &refused) && refused.Status == http.StatusBadRequest {
		list, err = c.slices(ctx, driver, "spec.driver="+driver)
	}
	if err != nil {
		return nil, err
	}
	// While a driver changes its pool, slices of the old generation are still there.
	newest, found := int64(-1), map[string]string(nil)
	for _, s := range list {
		if s.Spec.Driver != driver || s.Spec.Pool.Name != pool || s.Spec.Pool.Generation < newest {
			continue
		}
		if s.Spec.Pool.Generation > newest {
			newest, found = s.Spec.Pool.Generation, nil
		}
		for _, d := range s.Spec.Devices {
			if d.Name != device {
				continue
			}
			found = map[string]string{}
			for name, value := range d.Attributes {
				if !strings.Contains(name, "/") {
					name = driver + "/" + name
				}
				if value.String != nil {
					found[name] = *value.String
				}
			}
		}
	}
	if found == nil {
		return nil, &Error{Op: "list resource slices", Object: driver + "/" + pool + "/" + device, Err: ErrNotFound, code: netconf.CodeTryAgainLater}
	}
	return found, nil
}

func (c *Client) slices(ctx context.Context, driver, selector string) ([]slice, error) {
	var list struct{ Items []slice }
	err := c.do(ctx, call{op: "list resource slices", object: driver, method: http.MethodGet,
		path: "/apis/resource.k8s.io/v1/resourceslices?fieldSelector=" + url.QueryEscape(selector)}, &list)
	return list.Items, err
}
