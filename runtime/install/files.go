package install

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/durable"
)

// program plans to copy the program. A program that runs is replaced, not written to.
func (p *Plan) program(o *Options) error {
	path, action := o.bin(name), Create
	there, err := o.regular(path)
	if err != nil {
		return err
	}
	if there {
		same, err := equal(o.Program, o.at(path))
		if err != nil {
			return err
		}
		if action = Replace; same {
			p.add(path, Unchanged, "", nothing)
			return nil
		}
	}
	p.add(path, action, "", func() error { return copyFile(o.Program, o.at(path)) })
	return nil
}

// link plans a link to the program beside it.
func (p *Plan) link(o *Options, path string) error {
	to, err := os.Readlink(o.at(path))
	switch {
	case err == nil && to == name:
		p.add(path, Unchanged, to, nothing)
		return nil
	case errors.Is(err, fs.ErrNotExist):
		p.add(path, Create, name, func() error { return os.Symlink(name, o.at(path)) })
		return nil
	case err == nil:
		return fmt.Errorf("%s leads to %s: remove it first", o.at(path), to)
	}
	return fmt.Errorf("%s is no link: remove it first", o.at(path))
}

// unitFile plans to write the unit. One that is other is of another version, or was changed: it is set aside.
func (p *Plan) unitFile(o *Options) error {
	was, err := o.read(UnitPath)
	switch {
	case err != nil:
		return err
	case bytes.Equal(was, o.unit()):
		p.add(UnitPath, Unchanged, "", nothing)
		return nil
	case was != nil:
		p.setAside(o, UnitPath)
	}
	p.add(UnitPath, Create, "", func() error { return put(o.at(UnitPath), 0o644, o.unit()) })
	return nil
}

func (p *Plan) remove(o *Options, path string) {
	p.add(path, Remove, "", func() error { return os.Remove(o.at(path)) })
}

// setAside plans to rename a file, and replaces a file that was set aside before.
func (p *Plan) setAside(o *Options, path string) {
	p.add(path, SetAside, path+old, func() error { return os.Rename(o.at(path), o.at(path+old)) })
}

// equal reports whether two files have the same bytes.
func equal(a, b string) (bool, error) {
	x, err := bounded.Open(a)
	if err != nil {
		return false, err
	}
	defer x.Close()
	y, err := bounded.Open(b)
	if err != nil {
		return false, err
	}
	defer y.Close()
	bufX, bufY := make([]byte, 1<<20), make([]byte, 1<<20)
	for {
		n, errX := io.ReadFull(x, bufX)
		m, errY := io.ReadFull(y, bufY)
		ended := errors.Is(errX, io.EOF) || errors.Is(errX, io.ErrUnexpectedEOF)
		switch {
		case errX != nil && !ended:
			return false, errX
		case !bytes.Equal(bufX[:n], bufY[:m]):
			return false, nil
		case errY != nil || ended:
			return (errX == nil) == (errY == nil), nil
		}
	}
}

// copyFile writes an executable, so that it is there whole or not at all.
func copyFile(from, to string) error {
	in, err := bounded.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	return write(to, 0o755, in)
}

func put(path string, mode fs.FileMode, data []byte) error {
	return write(path, mode, bytes.NewReader(data))
}

func write(path string, mode fs.FileMode, from io.Reader) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // for everybody, as the directories of a system are
		return err
	}
	err := durable.Stream(path, mode, os.Rename, func(w io.Writer) error {
		_, err := io.Copy(w, from)
		return err
	})
	if err != nil {
		return err
	}
	return durable.SyncDir(dir)
}
