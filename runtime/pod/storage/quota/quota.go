package quota

import (
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ErrUnsupported means that a file system does not account for projects: it cannot, it is not mounted with prjquota, or
// the kernel is older than 5.14.
var ErrUnsupported = errors.New("no project quota")

// The project ids that Assign uses. The kubelet's begin at 1048577; what administrators use is smaller still.
const (
	firstID = 0x6a000000
	ids     = 1 << 24
	// maxTries bounds the ids that are tried for one directory. Each is in use with a chance of one in thousands.
	maxTries = 64
)

// Requests to get and to set the attributes of a file, the attribute that new files inherit the project of their
// directory, and the request for a project's quota, as in linux/fs.h and linux/quota.h. On architectures that number
// requests otherwise they fail, and trees are walked.
const (
	getAttributes  = 0x801c581f
	setAttributes  = 0x401c5820
	inheritProject = 0x200
	getQuota       = 0x800007
	projectQuota   = 2
)

// attributes are a file's attributes as the kernel lays them out.
type attributes struct {
	flags, extentSize, extents, project, copyExtentSize uint32
	_                                                   [8]byte
}

// usage is a quota and its use as the kernel lays them out.
type usage struct {
	bytesHard, bytesSoft, bytes    uint64
	inodesHard, inodesSoft, inodes uint64
	bytesTime, inodesTime          uint64
	valid                          uint32
	_                              [4]byte
}

// Assign gives an empty directory a project of its own, which everything below it inherits. The key separates
// the ids of two directories. It fails with ErrUnsupported where trees have to be walked.
func Assign(path, key string) error {
	dir, err := openDir(path)
	if err != nil {
		return err
	}
	defer dir.Close()
	if _, err := used(dir, 0); err != nil {
		return err
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(key)) // never fails
	for try := range uint32(maxTries) {
		id := firstID + (h.Sum32()+try)%ids
		before, err := used(dir, id)
		if err != nil {
			return err
		}
		if before.inodes > 0 || before.bytes > 0 {
			continue
		}
		return assign(dir, id)
	}
	return fmt.Errorf("give %s a project: %d ids are in use", path, maxTries)
}

// assign sets a project and checks that it is accounted for.
func assign(dir *os.File, id uint32) error {
	var a attributes
	if err := control(dir, getAttributes, &a); err != nil {
		return err
	}
	old := a
	a.project, a.flags = id, a.flags|inheritProject
	if err := control(dir, setAttributes, &a); err != nil {
		return err
	}
	now, err := used(dir, id)
	if err == nil && now.inodes != 1 {
		err = fmt.Errorf("project %d of %s has %d inodes, want one: %w", id, dir.Name(), now.inodes, ErrUnsupported)
	}
	if err != nil {
		return errors.Join(err, control(dir, setAttributes, &old))
	}
	return nil
}

// Used returns what the directory and all below it take, in bytes. ok is false if it has no project of Assign's.
func Used(path string) (bytes int64, ok bool) {
	dir, err := openDir(path)
	if err != nil {
		return 0, false
	}
	defer dir.Close()
	var a attributes
	if err := control(dir, getAttributes, &a); err != nil || a.flags&inheritProject == 0 || a.project < firstID ||
		a.project >= firstID+ids {
		return 0, false
	}
	u, err := used(dir, a.project)
	return int64(u.bytes), err == nil && u.inodes > 0
}

func openDir(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
}

// used returns what a project uses on the file system of dir; nothing if the project has no file.
func used(dir *os.File, project uint32) (usage, error) {
	var u usage
	_, _, code := unix.Syscall6(unix.SYS_QUOTACTL_FD, dir.Fd(), getQuota<<8|projectQuota, uintptr(project),
		uintptr(unsafe.Pointer(&u)), 0, 0)
	switch code {
	case 0, unix.ENOENT: // XFS has no entry for it
		return u, nil
	}
	return usage{}, fmt.Errorf("%w on %s: %w", ErrUnsupported, dir.Name(), code)
}

func control(dir *os.File, request uintptr, a *attributes) error {
	_, _, code := unix.Syscall(unix.SYS_IOCTL, dir.Fd(), request, uintptr(unsafe.Pointer(a)))
	if code != 0 {
		return fmt.Errorf("%w on %s: %w", ErrUnsupported, dir.Name(), code)
	}
	return nil
}
