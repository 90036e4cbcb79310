package skeltest

import (
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// byItself is what comes and goes without anybody's doing: link-local addresses, and what follows from them.
var byItself = regexp.MustCompile(`inet6 fe80::|fe80::/64|ff00::/8|anycast fe80::`)

// Look takes a snapshot of the host, the containers and the folders of the state, and of what runs in the background.
func (b *Bench) Look(containers ...*Container) Snapshot {
	b.Helper()
	left := b.background() // first: what is about to end may still change the rest
	all := prefixed("host", HostSnapshot(b))
	for _, c := range containers {
		if c.Alive() {
			all = append(all, prefixed(c.Add.ContainerID, c.Snapshot())...)
		}
	}
	all = append(slices.DeleteFunc(all, func(l string) bool { return byItself.MatchString(l) || b.goesWithLink(l) }), left...)
	for _, dir := range b.state() {
		err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || path == dir || b.Volatile.MatchString(path) {
				return err
			}
			line, err := stateLine(path, entry)
			all = append(all, line)
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	return all
}

// goesWithLink tells whether a line is about a sysctl of the host that a chained plugin may leave: route_localnet, which lets
// who is on the host reach a port of the container by 127.0.0.1, on a link that a plugin before it has made. A link of the
// attachment's own goes next, and the sysctl with it; of a bridge, nobody knows who is the last to need it. On any other
// link, such as the network card, it would let in from the network what is for 127.0.0.1 alone, and is seen.
func (b *Bench) goesWithLink(line string) bool {
	return slices.ContainsFunc(b.links, func(link string) bool {
		return line == "host: sysctl: net.ipv4.conf."+link+".route_localnet = 1"
	})
}

// stateLine shows what is in a folder of the state: of a file how it begins, and the whole of it as a sum.
func stateLine(path string, entry fs.DirEntry) (string, error) {
	if entry.Type()&fs.ModeSymlink != 0 {
		to, err := os.Readlink(path)
		return fmt.Sprintf("file: %s -> %s", path, to), err
	}
	if entry.IsDir() {
		return "folder: " + path, nil
	}
	if !entry.Type().IsRegular() {
		return fmt.Sprintf("file: %s of type %s", path, entry.Type()), nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if len(data) <= 200 {
		return fmt.Sprintf("file: %s %q", path, data), nil
	}
	sum := fnv.New64a()
	_, _ = sum.Write(data) // a hash takes all
	return fmt.Sprintf("file: %s %.200q... (%d bytes, sum %x)", path, data, len(data), sum.Sum64()), nil
}

func prefixed(of string, s Snapshot) Snapshot {
	for i := range s {
		s[i] = of + ": " + s[i]
	}
	return s
}

// withoutFolders leaves the folders of the state out: those of a store, in which its lock is, are made by who comes
// first, and to have made them is to have kept nothing.
func withoutFolders(s Snapshot) Snapshot {
	return slices.DeleteFunc(slices.Clone(s), func(l string) bool { return strings.HasPrefix(l, "folder: ") })
}

// withoutState leaves all but the host and a container out.
func withoutState(s Snapshot, c *Container) Snapshot {
	return slices.DeleteFunc(slices.Clone(s), func(l string) bool {
		return !strings.HasPrefix(l, "host: ") && !strings.HasPrefix(l, c.Add.ContainerID+": ")
	})
}
