package device

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/cnikit/cnikit/netconf"
)

// InfoDir is where device plugins and CNI plugins keep their device-info files (device-info-spec 1.1).
const InfoDir = "/var/run/k8s.cni.cncf.io/devinfo"

// maxInfo is the size in bytes above which a device-info file is refused: it would become part of the pod's status. Those of
// today's device plugins have 200 to 400.
const maxInfo = 64 << 10

// Files are the device-info files: what a device plugin tells of its devices, in DIR/dp, and the copy in DIR/cni that a
// CNI plugin gets, may change, and that the pod's status shows.
type Files struct {
	Dir string // default: InfoDir
}

// Path is the name of an attachment's own file, the value of the capability CNIDeviceInfoFile.
func (f Files) Path(containerID, ifname string) string {
	return filepath.Join(f.folder("cni"), containerID+"-"+ifname+"-device.json")
}

// Copy makes the attachment's file from the device plugin's, if that has written one for the device. Folders that are
// missing are made, readable for all, whatever the umask: pods mount them. The error has code 5, or 7 for what is no
// device-info file.
func (f Files) Copy(ctx context.Context, resource, id, path string) error {
	name := strings.ReplaceAll(resource+"-"+id+"-device.json", "/", "-")
	info, err := f.Load(filepath.Join(f.folder("dp"), name))
	if err != nil || info == nil {
		return err
	}
	if err := makeFolder(ctx, filepath.Dir(path)); err != nil {
		return err
	}
	if err := netconf.Before(ctx, "write "+path); err != nil {
		return err
	}
	if err := replace(path, info); err != nil {
		return netconf.Errorf(netconf.CodeIOFailure, "device-info file: %w", err)
	}
	return nil
}

// Load reads a device-info file; nil, nil if there is none. What is no JSON object, or has more than 64 KiB, is an error
// with code 7.
func (f Files) Load(path string) (json.RawMessage, error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, netconf.Errorf(netconf.CodeIOFailure, "device-info file: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(file, maxInfo+1))
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, netconf.Errorf(netconf.CodeIOFailure, "device-info file: %w", err)
	}
	if len(data) > maxInfo {
		return nil, netconf.Errorf(netconf.CodeInvalidNetworkConfig, "device-info file %q has more than %d bytes", path, maxInfo)
	}
	var object map[string]json.RawMessage
	if err := json.Unmarshal(data, &object); err != nil || object == nil {
		return nil, netconf.Errorf(netconf.CodeInvalidNetworkConfig, "device-info file %q is no JSON object", path)
	}
	return data, nil
}

// Remove removes an attachment's file. One that is not there is no error; one that is not in f's folder, as a damaged
// record may name it, is left alone.
func (f Files) Remove(ctx context.Context, path string) error {
	if filepath.Dir(path) != f.folder("cni") {
		return nil
	}
	if err := netconf.Before(ctx, "remove "+path); err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return netconf.Errorf(netconf.CodeIOFailure, "device-info file: %w", err)
	}
	return nil
}

func (f Files) folder(name string) string {
	dir := f.Dir
	if dir == "" {
		dir = InfoDir
	}
	return filepath.Join(dir, name)
}

// makeFolder makes a folder and those above it. The mode is set besides, since a runtime may have a umask of 0077.
func makeFolder(ctx context.Context, path string) error {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return nil
	}
	if err := makeFolder(ctx, filepath.Dir(path)); err != nil {
		return err
	}
	if err := netconf.Before(ctx, "mkdir "+path); err != nil {
		return err
	}
	err := os.Mkdir(path, 0o755)
	if errors.Is(err, fs.ErrExist) { // another call's, or no folder: that is told by who writes there
		return nil
	}
	if err == nil {
		err = os.Chmod(path, 0o755)
	}
	if err != nil {
		return netconf.Errorf(netconf.CodeIOFailure, "device-info folder: %w", err)
	}
	return nil
}

// replace writes a file beside the one that is there, and puts it in its place: nobody reads half of it.
func replace(path string, data []byte) error {
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	_, err = temp.Write(data)
	if err := errors.Join(err, temp.Chmod(0o644), temp.Close()); err != nil {
		return fmt.Errorf("%w%s", err, removed(temp.Name()))
	}
	if err := os.Rename(temp.Name(), path); err != nil {
		return fmt.Errorf("%w%s", err, removed(temp.Name()))
	}
	return nil
}

// removed removes a file that could not be completed, and says so if it stays.
func removed(path string) string {
	if err := os.Remove(path); err != nil {
		return "; " + err.Error()
	}
	return ""
}
