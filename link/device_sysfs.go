package link

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
)

// Where the kernel lists devices. What a folder of a device says of its links is what is in the namespace of whoever has
// mounted /sys.
const (
	pciFolder       = "/sys/bus/pci/devices/"
	auxiliaryFolder = "/sys/bus/auxiliary/devices/"
	devicesFolder   = "/sys/devices/"
)

// userspaceDrivers hand a PCI device to a process; so does each with "vfio" in its name (vfio-pci, and the variants that
// vendors have: mlx5_vfio_pci).
var userspaceDrivers = [...]string{"uio_pci_generic", "igb_uio"}

// folderOfID is the folder of what a device plugin has given.
func (d Device) folderOfID() string {
	if _, err := os.Stat(auxiliaryFolder + d.ID); err == nil && !strings.Contains(d.ID, "/") {
		return auxiliaryFolder + d.ID
	}
	return pciFolder + d.ID
}

// behind finds the link of a device by its folder: below net, or for virtio below virtioN/net. Which one of several is meant
// (the ports of one card, a switch's representors) only who configures it knows.
func (d Device) behind(host *NS, folder string) (netlink.Link, error) {
	inside := false
	for _, root := range []string{pciFolder, auxiliaryFolder, devicesFolder} {
		inside = inside || strings.HasPrefix(folder, root) && filepath.Clean(folder) != filepath.Clean(root)
	}
	if !inside || slices.Contains(strings.Split(folder, "/"), "..") || strings.ContainsAny(folder, "\x00*?[\\") {
		return nil, badLink(d.text(), "it is no device: expected the name of one, or a folder below %s", devicesFolder)
	}
	names, err := entries(filepath.Join(folder, "net"))
	if err == nil && len(names) == 0 {
		var virtio []string
		virtio, err = filepath.Glob(filepath.Join(folder, "virtio*", "net"))
		if err == nil && len(virtio) > 0 {
			names, err = entries(virtio[0])
		}
	}
	switch {
	case err != nil:
		return nil, &Error{Op: "read device", Name: folder, Err: err}
	case len(names) > 1:
		return nil, badLink(d.text(), "the device has several links (%s): name one", strings.Join(names, ", "))
	case len(names) == 0:
		return nil, nil
	}
	return find(host, names[0])
}

// entries are the names in a folder, none if there is no such folder.
func entries(folder string) (names []string, err error) {
	list, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range list {
		names = append(names, e.Name())
	}
	return names, err
}

// Userspace tells whether the PCI device is bound to a driver that hands it to a process (DPDK): then the kernel has no link
// of it, and an attachment consists of the interface's name in the result.
func (d Device) Userspace() bool {
	address := d.PCI
	if d.ID != "" {
		address = d.ID
	}
	if address == "" || strings.Contains(address, "/") {
		return false
	}
	target, err := os.Readlink(pciFolder + address + "/driver")
	driver := filepath.Base(target)
	return err == nil && (strings.Contains(driver, "vfio") || slices.Contains(userspaceDrivers[:], driver))
}
