package persistentvolume

import (
	"context"
	"io/fs"
	"iter"
	"os"

	"github.com/container-storage-interface/spec/lib/go/csi"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/durable"
	"github.com/journalet/journalet/runtime/pod/mounts"
)

// Callers are the CSI drivers that can be called. Drivers implements it.
type Callers interface {
	// Caller returns the driver of a name, or why it cannot be called.
	Caller(name string) (Caller, error)
	// Usage has a driver measure a volume; nothing if the driver measures none.
	Usage(ctx context.Context, name, handle, path string) ([]*csi.VolumeUsage, error)
	// Recount has a driver say at once how many volumes it can have on this node.
	Recount(ctx context.Context, name string)
}

// Caller is a CSI driver.
type Caller interface {
	// Call performs one RPC, which is called what, with a deadline. An error before the RPC is errNotCalled.
	Call(ctx context.Context, what string, f func(context.Context, csi.NodeClient) error) error
}

// Files are the directories of volumes, and the mount table. Paths are absolute.
type Files interface {
	// Entries yields the entries of a directory. An error ends it.
	Entries(dir string) iter.Seq2[fs.DirEntry, error]
	// Read returns a file's contents, of at most limit bytes.
	Read(path string, limit int64) ([]byte, error)
	// Write replaces a file for good: it outlasts a crash of the machine.
	Write(path string, b []byte) error
	// MkdirAll creates a directory and its parents.
	MkdirAll(path string) error
	// Remove removes a file, or an empty directory.
	Remove(path string) error
	// Lstat returns what is at a path, and Stat what a link there leads to.
	Lstat(path string) (fs.FileInfo, error)
	Stat(path string) (fs.FileInfo, error)
	// Mounted reports whether something is mounted at a path. It must not touch what is mounted: a file system whose
	// server is gone would block.
	Mounted(path string) (bool, error)
}

// machine is the machine's Files.
type machine struct{}

func (machine) Entries(dir string) iter.Seq2[fs.DirEntry, error] { return bounded.Entries(dir) }
func (machine) Read(path string, limit int64) ([]byte, error)    { return bounded.ReadFile(path, limit) }
func (machine) Write(path string, b []byte) error                { return durable.Write(path, b) }
func (machine) MkdirAll(path string) error                       { return os.MkdirAll(path, dirMode) }
func (machine) Remove(path string) error                         { return os.Remove(path) }
func (machine) Lstat(path string) (fs.FileInfo, error)           { return os.Lstat(path) }
func (machine) Stat(path string) (fs.FileInfo, error)            { return os.Stat(path) }
func (machine) Mounted(path string) (bool, error)                { return mounts.At(path) }
