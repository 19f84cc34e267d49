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
	"time"

	"github.com/journalet/journalet/runtime/bounded"
)

// Pack writes the file or the tree at local to w as an archive of what is called name; with the name "." the content of
// the tree has no directory of its own. A link below local stays a link, and what is neither a file, a directory nor a
// link is left out with a warning.
func Pack(ctx context.Context, w io.Writer, local, name string, warn func(string)) error {
	local, err := filepath.EvalSymlinks(local) // the user has named it
	if err != nil {
		return err
	}
	if local, err = filepath.Abs(local); err != nil {
		return err
	}
	p := &packer{ctx: ctx, tar: tar.NewWriter(w), warn: warn}
	base := "."
	info, err := os.Stat(local)
	if err != nil {
		return err
	}
	dir := local
	if !info.IsDir() {
		dir, base = filepath.Dir(local), filepath.Base(local)
	}
	if p.root, err = os.OpenRoot(dir); err != nil {
		return err
	}
	defer p.root.Close()
	if err := p.add(base, name); err != nil {
		return err
	}
	return p.tar.Close()
}

type packer struct {
	ctx  context.Context
	root *os.Root
	tar  *tar.Writer
	warn func(string)
}

// add adds a file, by its path in the root, under a name of the archive.
func (p *packer) add(file, name string) error {
	if err := p.ctx.Err(); err != nil {
		return err
	}
	info, err := p.root.Lstat(file)
	if err != nil {
		return err
	}
	switch mode := info.Mode(); {
	case mode.IsDir():
		return p.dir(info, file, name)
	case mode.IsRegular():
		return p.file(file, name)
	case mode&fs.ModeSymlink != 0:
		to, err := p.root.Readlink(file)
		if err != nil {
			return err
		}
		return p.header(info, to, name)
	}
	p.warn(fmt.Sprintf("left out %q: it is neither a file, a directory nor a link", file))
	return nil
}

// dir adds what a directory holds. Only an empty directory has an entry: the others come into being with what they
// hold, and nothing changes the permissions of existing directories.
func (p *packer) dir(info fs.FileInfo, file, name string) error {
	empty := true
	for e, err := range bounded.EntriesIn(p.root, file) {
		if err != nil {
			return err
		}
		empty = false
		if err := p.add(path.Join(file, e.Name()), path.Join(name, e.Name())); err != nil {
			return err
		}
	}
	if empty && name != "." {
		return p.header(info, "", name+"/")
	}
	return nil
}

func (p *packer) file(file, name string) error {
	f, err := bounded.OpenIn(p.root, file)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if err := p.header(info, "", name); err != nil {
		return err
	}
	n, err := io.Copy(p.tar, io.LimitReader(&during{p.ctx, f}, info.Size()))
	if err == nil && n < info.Size() {
		err = errors.New("it became shorter while it was read")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

func (p *packer) header(info fs.FileInfo, link, name string) error {
	h, err := tar.FileInfoHeader(info, link)
	if err != nil {
		return err
	}
	h.Name, h.AccessTime, h.ChangeTime = name, time.Time{}, time.Time{}
	h.Format = tar.FormatGNU // busybox knows long names only so
	return p.tar.WriteHeader(h)
}

// during is a reader that ends with a context.
type during struct {
	ctx context.Context
	r   io.Reader
}

func (d *during) Read(b []byte) (int, error) {
	if err := d.ctx.Err(); err != nil {
		return 0, err
	}
	return d.r.Read(b)
}
