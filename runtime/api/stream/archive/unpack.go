package archive

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

const (
	// maxNameBytes bounds the name of an entry, in bytes: Linux has no longer paths.
	maxNameBytes = 4096
	// maxEntries bounds the entries of one archive. Large source trees have some 100,000.
	maxEntries = 4 << 20
	// maxTrailingBytes bounds what follows the end of an archive, in bytes. tar fills its last 10 KiB with zeros.
	maxTrailingBytes = 1 << 20
	dirMode          = 0o755
	fileMode         = 0o666
)

// ErrHostile is the error of an archive that no tar would write for what was requested.
var ErrHostile = errors.New("the container's archive is not what was requested")

// Target is where an archive goes.
type Target struct {
	// Base is the name of what was requested, as the archive has it; "." if its names have no common directory.
	Base string
	// Local is the path of the file or directory to write. A file goes into it if it is a directory; a directory's
	// content goes into it and keeps what is there under other names.
	Local string
	// Executable keeps the permission to execute files that are created. No other permission, owner or time is kept.
	Executable bool
	// Warn reports an entry that was left out.
	Warn func(string)
	// Count is called with the number of each content's bytes as they are written.
	Count func(int)
}

// Unpack writes an archive that a container sends. An archive is refused with ErrHostile at the first entry that was
// not requested; what was written before stays. Links and devices are left out with a warning.
func Unpack(ctx context.Context, r io.Reader, to Target) error {
	in := &counted{r: &during{ctx, r}}
	u := &unpacker{Target: to, in: in, tar: tar.NewReader(in)}
	defer u.close()
	for {
		h, err := u.tar.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("read the archive: %w", err)
		}
		if u.entries++; u.entries > maxEntries {
			return fmt.Errorf("%w: it has more than %d entries", ErrHostile, maxEntries)
		}
		if err := u.entry(h); err != nil {
			return err
		}
	}
	// To the end: how the program ended that wrote the archive is known after that.
	n, err := io.Copy(io.Discard, io.LimitReader(in, maxTrailingBytes))
	switch {
	case u.entries == 0:
		return io.ErrUnexpectedEOF
	case n == maxTrailingBytes && err == nil:
		return fmt.Errorf("%w: it does not end", ErrHostile)
	}
	return nil
}

type unpacker struct {
	Target
	in      *counted
	tar     *tar.Reader
	entries int
	written int64
	root    *os.Root // nil until the first entry
	single  string   // the name in root of what is a file, not a directory
}

func (u *unpacker) close() {
	if u.root != nil {
		u.root.Close()
	}
}

// entry writes one entry.
func (u *unpacker) entry(h *tar.Header) error {
	name, err := u.within(h.Name)
	if err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		if err := u.openDir(); err != nil {
			return err
		}
		if name == "." {
			return nil
		}
		return u.root.MkdirAll(name, dirMode)
	case tar.TypeReg, tar.TypeGNUSparse:
		if name == "." && u.Base != "." {
			name, err = u.openFile()
		} else {
			err = u.openDir()
		}
		if err != nil {
			return err
		}
		return u.file(h, name)
	case tar.TypeSymlink, tar.TypeLink:
		u.Warn(fmt.Sprintf("left out %q: it is a link to %q", h.Name, h.Linkname))
	case tar.TypeXGlobalHeader:
		u.entries-- // it is about the others
	default:
		u.Warn(fmt.Sprintf("left out %q: it is neither a file nor a directory", h.Name))
	}
	return nil
}

// within returns the path of an entry below what was requested, "." for that itself.
func (u *unpacker) within(name string) (string, error) {
	hostile := func(why string) (string, error) { return "", fmt.Errorf("%w: %.200q %s", ErrHostile, name, why) }
	if len(name) > maxNameBytes {
		return hostile("is too long a name")
	}
	if path.IsAbs(name) || strings.ContainsRune(name, 0) {
		return hostile("is not a name below it")
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == ".." {
			return hostile("leads out of it")
		}
	}
	clean := path.Clean(name)
	if u.Base == "." {
		return clean, nil
	}
	if clean == u.Base {
		return ".", nil
	}
	rest, ok := strings.CutPrefix(clean, u.Base+"/")
	if !ok {
		return hostile("is not part of it")
	}
	return rest, nil
}

// openDir opens the directory that the content of a directory goes to.
func (u *unpacker) openDir() (err error) {
	if u.single != "" {
		return fmt.Errorf("%w: it holds a directory and a file of one name", ErrHostile)
	}
	if u.root != nil {
		return nil
	}
	if err := os.MkdirAll(u.Local, dirMode); err != nil {
		return err
	}
	u.root, err = os.OpenRoot(u.Local)
	return err
}

// openFile opens the directory that a single file goes to, and returns its name there.
func (u *unpacker) openFile() (name string, err error) {
	if u.root != nil {
		return "", fmt.Errorf("%w: it holds more than one file of one name", ErrHostile)
	}
	dir, name := filepath.Split(u.Local)
	if info, err := os.Stat(u.Local); err == nil && info.IsDir() || name == "" {
		dir, name = u.Local, u.Base
	}
	if dir == "" {
		dir = "."
	}
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return "", err
	}
	u.root, err = os.OpenRoot(dir)
	u.single = name
	return name, err
}

// file writes a file. It overwrites an existing file, but never writes through a link or into a device.
func (u *unpacker) file(h *tar.Header, name string) error {
	mode := fs.FileMode(fileMode)
	if u.Executable {
		mode |= h.FileInfo().Mode() & 0o111
	}
	flags := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	switch old, err := u.root.Lstat(name); {
	case err == nil && !old.Mode().IsRegular():
		return fmt.Errorf("%s exists and is no regular file: remove it, or choose another destination",
			filepath.Join(u.root.Name(), name))
	case err == nil:
		flags = os.O_WRONLY | os.O_TRUNC
	case !errors.Is(err, fs.ErrNotExist):
		return err
	default:
		if dir := path.Dir(name); dir != "." {
			if err := u.root.MkdirAll(dir, dirMode); err != nil {
				return err
			}
		}
	}
	f, err := u.root.OpenFile(name, flags, mode)
	if err != nil {
		return err
	}
	_, err = io.Copy(&content{u, f}, u.tar)
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", filepath.Join(u.root.Name(), name), err)
	}
	return nil
}

// content is what writes a file. The holes of a sparse one cost its sender nothing: none is requested, and so no
// archive has more content than bytes.
type content struct {
	u *unpacker
	f *os.File
}

func (c *content) Write(b []byte) (int, error) {
	if c.u.written += int64(len(b)); c.u.written > c.u.in.n {
		return 0, fmt.Errorf("%w: its content is longer than it is", ErrHostile)
	}
	n, err := c.f.Write(b)
	if c.u.Count != nil {
		c.u.Count(n)
	}
	return n, err
}

// counted counts what is read.
type counted struct {
	r io.Reader
	n int64
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.r.Read(b)
	c.n += int64(n)
	return n, err
}
