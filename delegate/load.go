package delegate

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cnikit/cnikit/netconf"
)

// ErrNoNetwork is in the error where a folder has no network of the name.
var ErrNoNetwork = errors.New("no such network")

// errOther is why a file is passed over that is none of a network.
var errOther = errors.New("the name does not end in .conf, .conflist or .json")

// File is a file of a folder of networks.
type File struct {
	Path    string
	Network *Network // what it describes; nil if it is passed over
	Err     error    // why it is passed over; nil if it is not
	name    string   // the network's, as far as it could be read
}

// ListNetworks reads all networks of a folder, in the order in which runtimes choose the first one as their default:
// by the files' names; of files that differ only in what is behind the last dot, .conflist goes first. There is a
// File for each file of the folder, also for those that are passed over, with the reason: another ending, and what
// LoadFile says. The error, with code 5, is that of the folder alone.
func ListNetworks(dir string) ([]File, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, netconf.Errorf(netconf.CodeIOFailure, "networks: %w", err)
	}
	var files []File
	for _, entry := range entries {
		if entry.IsDir() { // plugins of a network, see LoadFile
			continue
		}
		f := File{Path: filepath.Join(dir, entry.Name()), Err: errOther}
		if rank(f.Path) > 0 {
			var n parsed
			n, f.Err = load(f.Path)
			if f.name = n.Name; f.Err == nil {
				f.Network = n.Network
			}
		}
		files = append(files, f)
	}
	slices.SortStableFunc(files, func(a, b File) int {
		return cmp.Or(strings.Compare(stem(a.Path), stem(b.Path)), cmp.Compare(rank(a.Path), rank(b.Path)), strings.Compare(a.Path, b.Path))
	})
	return files, nil
}

// rank orders the endings that a file of a network can have; 0 is no such ending.
func rank(path string) int {
	return 1 + slices.Index([]string{".conflist", ".conf", ".json"}, filepath.Ext(path))
}

// stem is a path up to its last dot, and with it: "a-b." is before "a." as "a-b.conf" is before "a.conf".
func stem(path string) string { return strings.TrimSuffix(path, filepath.Ext(path)) + "." }

// LoadNetwork reads the network of a name from a folder: of the files that describe it the first in the order of
// ListNetworks, but all .conflist before the others, as libcni has it. A file that has this name and is
// broken otherwise is the error; what else is passed over is told only if there is no such network. That
// is an error with code 7 that Is ErrNoNetwork.
func LoadNetwork(dir, name string) (*Network, error) {
	files, err := ListNetworks(dir)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(files, func(a, b File) int { return cmp.Compare(min(rank(a.Path), 2), min(rank(b.Path), 2)) })
	passed := ""
	for _, f := range files {
		switch {
		case rank(f.Path) == 0:
		case f.name == name && f.Err != nil:
			return nil, f.Err
		case f.name == name:
			return f.Network, nil
		case f.Err != nil:
			passed += "; " + f.Err.Error()
		}
	}
	return nil, netconf.Errorf(netconf.CodeInvalidNetworkConfig, "%w: looked for %q in %q%s", ErrNoNetwork, name, dir, passed)
}

// LoadFile reads a network from a file, whatever its name ends in. To the plugins of a list those of the folder beside
// it are added that has the network's name (SPEC, section 1 "loadOnlyInlinedPlugins"): the files NAME/*.conf in the
// order of their names, unless the list has loadOnlyInlinedPlugins. Errors name the file; beside those of
// ParseNetwork there is code 5 for a file that cannot be read, and for what is no regular file.
func LoadFile(path string) (*Network, error) {
	n, err := load(path)
	if err != nil {
		return nil, err
	}
	return n.Network, nil
}

func load(path string) (parsed, error) {
	data, err := read(path)
	if err != nil {
		return parsed{Network: &Network{}}, err
	}
	n, errs := parse(data)
	if len(errs) == 0 && !n.inline {
		errs = n.addFrom(filepath.Join(filepath.Dir(path), n.Name)) // the name was checked: it has no separator
	}
	if len(errs) == 0 && len(n.Plugins) == 0 {
		errs = append(errs, keyError(data, netconf.CodeInvalidNetworkConfig, "plugins",
			`missing: expected a list of plugins, files *.conf in the folder %q beside it, or the key "type" of one plugin%s`, n.Name, didYouMean(data)))
	}
	if err := netconf.Join(errs...); err != nil {
		return n, fmt.Errorf("%q: %w", path, err)
	}
	return n, nil
}

// addFrom appends the plugins of a folder; one that is not there has none.
func (n parsed) addFrom(dir string) (errs []error) {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return []error{netconf.Errorf(netconf.CodeIOFailure, "plugins: %w", err)}
	}
	for _, entry := range entries { // in order
		if entry.IsDir() || filepath.Ext(entry.Name()) != ".conf" {
			continue
		}
		path := filepath.Join(dir, entry.Name())
		data, err := read(path)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		l := &list{data: data}
		if _, err := netconf.DecodeJSON[struct{}](data, nil); err != nil {
			l.errs = []error{err}
		} else {
			l.plugin("", data)
		}
		if err := netconf.Join(l.errs...); err != nil {
			errs = append(errs, fmt.Errorf("%q: %w", path, err))
		}
		n.Plugins = append(n.Plugins, data)
	}
	return errs
}

// read reads a file. Something else of that name, a FIFO say, would have no end.
func read(path string) ([]byte, error) {
	fail := func(err error) ([]byte, error) {
		return nil, netconf.Errorf(netconf.CodeIOFailure, "%w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return fail(err)
	}
	if !info.Mode().IsRegular() {
		return fail(fmt.Errorf("%q is not a regular file", path))
	}
	f, err := os.Open(path)
	if err != nil {
		return fail(err)
	}
	defer f.Close() // it was only read
	data, err := io.ReadAll(io.LimitReader(f, netconf.MaxConfig+1))
	switch {
	case err != nil:
		return fail(err)
	case len(data) > netconf.MaxConfig:
		return nil, netconf.Errorf(netconf.CodeDecodingFailure, "%q: larger than %d bytes", path, netconf.MaxConfig)
	}
	return data, nil
}
