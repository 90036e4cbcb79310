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
	if len(folders) == 0 {
		return "", netconf.Errorf(netconf.CodeIOFailure, "%w: looked for %q, and CNI_PATH is empty", ErrNotFound, name)
	}
	if there := similar(name, folders); there != "" {
		passed += fmt.Sprintf("; there is %q", there)
	}
	return "", netconf.Errorf(netconf.CodeIOFailure, "%w: looked for %q in %q%s", ErrNotFound, name, folders, passed)
}

// similar returns a program of the folders that name may stand for, "" if there is none.
func similar(name string, folders []string) string {
	for _, folder := range folders {
		entries, _ := os.ReadDir(folder) // it is only a hint; why a folder cannot be read is told already
		for _, entry := range entries {
			is := strings.TrimSuffix(entry.Name(), ".exe")
			if near(strings.ToLower(name), strings.ToLower(is)) && runnable(filepath.Join(folder, entry.Name())) == nil {
				return is
			}
		}
	}
	return ""
}

// near tells whether two words are the same but for one letter put in, taken out or replaced, or two
// neighbours swapped. Of three letters one is too much.
func near(a, b string) bool {
	if len(a) < 4 {
		return a == b
	}
	for a != "" && b != "" && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for a != "" && b != "" && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return len(a) < 2 && len(b) < 2 || len(a) == 2 && len(b) == 2 && a[0] == b[1] && a[1] == b[0]
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
