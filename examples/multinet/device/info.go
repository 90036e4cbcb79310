package device

import (
	"context"
	"encoding/json"
)

// InfoDir is where device plugins and CNI plugins keep their device-info files (device-info-spec 1.1).
const InfoDir = "/var/run/k8s.cni.cncf.io/devinfo"

// Files are the device-info files: what a device plugin tells of its devices, in DIR/dp, and the copy in DIR/cni that a
// CNI plugin gets, may change, and that the pod's status shows.
type Files struct {
	Dir string // default: InfoDir
}

// Path is the name of an attachment's own file, the value of the capability CNIDeviceInfoFile.
func (f Files) Path(containerID, ifname string) string { return "" }

// Copy makes the attachment's file from the device plugin's, if that has written one for the device. Folders that are
// missing are made, readable for all.
func (f Files) Copy(ctx context.Context, resource, id, path string) error { return nil }

// Load reads an attachment's file; nil, nil if there is none.
func (f Files) Load(path string) (json.RawMessage, error) { return nil, nil }

// Remove removes an attachment's file; one that is not there, or not in f's folder, is left alone.
func (f Files) Remove(ctx context.Context, path string) error { return nil }
