package rotate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/klauspost/compress/gzip"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/pod/logs"
)

const (
	// maxCompressBytes bounds a file that is compressed: a container could plant a sparse one of any size. A longer one
	// stays as it is until it is the oldest.
	maxCompressBytes = 8 << 30
	// copyBytes is how much is compressed between two inspections of the context.
	copyBytes = 256 << 10
	// permissions are the bits of a log's mode that its archive gets.
	permissions = 0o777
)

// setPacking notes that there are files to compress, or that a crash may have left some.
func (c *container) setPacking() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wants = true
}

// wantsPacking reports whether the container has work for a worker, and takes it.
func (c *container) wantsPacking() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.wants || c.packing {
		return false
	}
	c.packing = true
	return true
}

// release gives the work back. It stays wanted until compressAll has succeeded.
func (c *container) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.packing = false
}

// compressAll compresses the older files of a log, and removes what a crash has left.
func (d *Driver) compressAll(ctx context.Context, c *container) {
	c.mu.Lock()
	c.wants = false // a rotation meanwhile wants it again
	reported := c.packFailed
	c.mu.Unlock()
	err := d.compressIn(ctx, c)
	if ctx.Err() != nil {
		return
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil // the container is gone with its logs
	}
	c.mu.Lock()
	c.packFailed = err != nil
	c.wants = c.wants || err != nil
	c.mu.Unlock()
	if err != nil && !reported && d.runs(c) {
		d.opts.Log.Warn("cannot compress a container's log", "container", c.id, "error", err)
		d.report(ctx, c, 0, fmt.Errorf("compress: %w", err))
	}
}

func (d *Driver) compressIn(ctx context.Context, c *container) error {
	dir, err := bounded.Hold(d.opts.Dir, c.below)
	if err != nil {
		return err
	}
	defer dir.Close()
	steps, err := d.plan(dir, c, false)
	if err != nil {
		return err
	}
	err = errors.Join(remove(dir, steps.Left), remove(dir, steps.Excess))
	for _, name := range steps.Compress {
		err = errors.Join(err, compress(ctx, dir, name))
	}
	return err
}

// compress replaces a file by its archive. Until that is complete and on disk, the file stays.
func compress(ctx context.Context, dir *bounded.Held, name string) (err error) {
	from, err := dir.Open(name)
	if err != nil {
		return err
	}
	defer from.Close()
	info, err := from.Stat()
	if err != nil || info.Size() > maxCompressBytes {
		return err
	}
	to, err := dir.Create(name+temporary, uint32(info.Mode()&permissions))
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, to.Close())
		if err != nil {
			_ = dir.Remove(name + temporary)
		}
	}()
	if err := pack(ctx, to, from); err != nil {
		return err
	}
	// The reader of logs goes by the time of the last line.
	if err := dir.SetModified(name+temporary, info.ModTime()); err != nil {
		return err
	}
	if err := dir.Rename(name+temporary, name+logs.Packed); err != nil {
		return err
	}
	return dir.Remove(name)
}

// pack writes an archive to disk.
func pack(ctx context.Context, to *os.File, from io.Reader) error {
	z, err := gzip.NewWriterLevel(to, gzip.BestSpeed)
	if err != nil {
		return err
	}
	buf, left := make([]byte, copyBytes), int64(maxCompressBytes)
	for {
		n, err := from.Read(buf)
		if _, err := z.Write(buf[:n]); err != nil {
			return err
		}
		left -= int64(n)
		switch {
		case errors.Is(err, io.EOF):
			return errors.Join(z.Close(), to.Sync())
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case left < 0:
			return fmt.Errorf("it grows while it is compressed, beyond %d bytes", int64(maxCompressBytes))
		}
	}
}
