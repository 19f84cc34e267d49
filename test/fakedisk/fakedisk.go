package fakedisk

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/test/must"
)

// begin is how each program begins: it notes its arguments, hangs as long as it is held, and fails if it is to.
const begin = `#!/bin/sh
dir=$(dirname "$0") name=$(basename "$0")
echo "$name $*" >>"$dir/calls"
[ ! -e "$dir/holds-$name" ] || : >"$dir/hung"
while [ -e "$dir/holds-$name" ]; do sleep 0.02; done
[ ! -e "$dir/exit-$name" ] || { echo "$name: no" >&2; exit "$(cat "$dir/exit-$name")"; }
`

// programs are what follows that.
var programs = map[string]string{
	"blkid": `[ -e "$dir/has" ] || exit 2
echo DEVNAME=disk
cat "$dir/has"
`,
	"fsck": "", "resize2fs": "", "xfs_growfs": "", "btrfs": "",
	"mkfs.ext4": `echo TYPE=ext4 >"$dir/has"
`,
	"mkfs.xfs": `echo TYPE=xfs >"$dir/has"
`,
	// [--no-canonicalize] -t TYPE [-o OPTIONS] -- DEVICE TARGET
	"mount": `options=rw
while [ "$1" != -- ]; do
  case $1 in
  --no-canonicalize) shift ;;
  -t) shift 2 ;;
  -o) options=$2; shift 2 ;;
  esac
done
/bin/mount --bind "$dir/contents" "$3" || exit 32
case ,$options, in *,ro,*) /bin/mount -o remount,bind,ro "$3" || exit 32 ;; esac
`,
	"umount": `exec /bin/umount "$@"
`,
}

// Disk is a disk, at first a blank one.
type Disk struct {
	t *testing.T
	// Dir has the programs, Device is the path of the disk, Contents the directory that is mounted.
	Dir, Device, Contents string
}

// New returns a blank disk.
func New(t *testing.T) *Disk {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("this test mounts: run it as root")
	}
	dir := t.TempDir()
	d := &Disk{t: t, Dir: dir, Device: filepath.Join(dir, "device"), Contents: filepath.Join(dir, "contents")}
	for name, text := range programs {
		must.OK(t, os.WriteFile(filepath.Join(dir, name), []byte(begin+text), 0o700)) //nolint:gosec // a program
	}
	must.OK(t, os.Mkdir(d.Contents, 0o750))
	var st unix.Stat_t
	must.OK(t, unix.Stat(d.Contents, &st))
	// The device has the number of the file system that is mounted in its place. Nothing opens the device.
	must.OK(t, unix.Mknod(d.Device, unix.S_IFBLK|0o600, int(st.Dev)))
	return d
}

// Has says what is on the disk, in lines of blkid(8); empty: nothing.
func (d *Disk) Has(text string) {
	if text == "" {
		d.unset("has")
		return
	}
	d.set("has", text+"\n")
}

// Exit has a program fail with a code, or not with 0.
func (d *Disk) Exit(name string, code int) {
	if code == 0 {
		d.unset("exit-" + name)
		return
	}
	d.set("exit-"+name, strconv.Itoa(code))
}

// Hold has a program hang, or hang no more.
func (d *Disk) Hold(name string, holds bool) {
	if !holds {
		d.unset("holds-" + name)
		return
	}
	d.set("holds-"+name, "")
}

// Hung reports whether a program hangs that did not when this was last asked.
func (d *Disk) Hung() bool { return os.Remove(filepath.Join(d.Dir, "hung")) == nil }

// Remove takes a program off the node.
func (d *Disk) Remove(name string) {
	d.t.Helper()
	must.OK(d.t, os.Remove(filepath.Join(d.Dir, name)))
}

// Calls returns the programs that were started with their arguments, and forgets them. The disk is called DISK.
func (d *Disk) Calls() []string {
	d.t.Helper()
	b, err := os.ReadFile(filepath.Join(d.Dir, "calls"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	must.OK(d.t, err)
	d.unset("calls")
	return strings.Split(strings.TrimSpace(strings.ReplaceAll(string(b), d.Device, "DISK")), "\n")
}

func (d *Disk) set(name, text string) {
	d.t.Helper()
	must.OK(d.t, os.WriteFile(filepath.Join(d.Dir, name), []byte(text), 0o600))
}

func (d *Disk) unset(name string) {
	d.t.Helper()
	if err := os.Remove(filepath.Join(d.Dir, name)); !errors.Is(err, fs.ErrNotExist) {
		must.OK(d.t, err)
	}
}
