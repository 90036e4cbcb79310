package delegate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/cnikit/cnikit/netconf"
)

// CheckType says whether s can be the name of a plugin's program: not empty, not "." or "..", no
// path separator of any system ("/", "\"; SPEC, section 1 "type") and no NUL. The error carries code 7.
func CheckType(s string) error {
	switch {
	case s == "":
		return netconf.Errorf(netconf.CodeInvalidNetworkConfig, "the plugin has no name")
	case s == "." || s == ".." || strings.ContainsAny(s, "/\\\x00"):
		return netconf.Errorf(netconf.CodeInvalidNetworkConfig, "%q is not the name of a plugin: expected a file name, without a folder", s)
	}
	return nil
}

// find looks a program up in the folders, in their order. What has the name but cannot be run (a
// folder, a file without the execute bit) is passed over, as a shell does, and mentioned if nothing else
// is found.
func find(name string, folders []string) (string, error) {
	if err := CheckType(name); err != nil {
		return "", err
	}
	file := name
	if runtime.GOOS == "windows" && filepath.Ext(name) != ".exe" {
		file += ".exe"
	}
	passed := ""
	for _, folder := range folders {
		path := filepath.Join(folder, file)
		why := runnable(path)
		if why == nil {
			return path, nil
		}
		if !errors.Is(why, fs.ErrNotExist) {
			passed += fmt.Sprintf("; %q %v", path, why)
		}
	}
	return "", netconf.Errorf(netconf.CodeIOFailure, "%w: looked for %q in %q%s", ErrNotFound, name, folders, passed)
}

func runnable(path string) error {
	info, err := os.Stat(path)
	var pathErr *fs.PathError
	switch {
	case errors.As(err, &pathErr):
		return pathErr.Err // without the path, which the caller names
	case err != nil:
		return err
	case info.IsDir():
		return errors.New("is a folder")
	case !info.Mode().IsRegular():
		return errors.New("is not a regular file")
	case runtime.GOOS != "windows" && info.Mode()&0o111 == 0:
		return errors.New("is not executable")
	}
	return nil
}
