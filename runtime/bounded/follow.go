package bounded

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxLinks bounds the links that a name may lead through. Linux: 40.
const maxLinks = 8

// ErrLeadsOut means that a link leads out of the directory that must not be left.
var ErrLeadsOut = errors.New("the link leads out of its directory")

// FollowIn returns the name below root that a name leads to by the links at its end, and what is there: no link.
// Links may be relative, or absolute to somewhere below a path under which root is known. All others are ErrLeadsOut,
// and so are absolute ones on the way. Open what it returns with OpenIn or EntriesIn: these follow no link at the end,
// so that one which somebody puts there meanwhile leads nowhere.
func FollowIn(root *os.Root, name string, known ...string) (string, fs.FileInfo, error) {
	for range maxLinks {
		info, err := root.Lstat(name)
		if err != nil || info.Mode()&fs.ModeSymlink == 0 {
			return name, info, err
		}
		target, err := root.Readlink(name)
		if err != nil {
			return "", nil, err
		}
		next := filepath.Join(filepath.Dir(name), target)
		if filepath.IsAbs(target) {
			next = relativeTo(filepath.Clean(target), known)
		}
		if !filepath.IsLocal(next) {
			return "", nil, &fs.PathError{Op: "follow", Path: name, Err: ErrLeadsOut}
		}
		name = next
	}
	return "", nil, &fs.PathError{Op: "follow", Path: name, Err: errors.New("too many links")}
}

// relativeTo returns a path relative to the first of these directories that it is below; "" for none.
func relativeTo(path string, dirs []string) string {
	for _, dir := range dirs {
		if below, ok := strings.CutPrefix(path, strings.TrimSuffix(filepath.Clean(dir), "/")+"/"); ok {
			return below
		}
	}
	return ""
}
