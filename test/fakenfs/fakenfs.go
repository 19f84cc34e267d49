package fakenfs

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/journalet/journalet/test/must"
)

// helper is mount.nfs: SERVER:PATH TARGET [-o OPTIONS]. As the real one it resolves the target by itself.
const helper = `#!/bin/sh
export FAKENFS="$0" # names its processes
dir=$(dirname "$0")
echo "$*" >>"$dir/mounts"
spec=$1 target=$(readlink -f "$2") options=${4:-rw}
[ -e "$dir/away" ] && { : >"$dir/hung"; exec sleep 1000; }
export=$dir/exports/${spec#*:/}
[ -d "$export" ] || {
  echo "mount.nfs: access denied by server while mounting $spec" >&2
  exit 32
}
mount --bind "$export" "$target" || exit 32
case ,$options, in *,ro,*) mount -o remount,bind,ro "$target" || exit 32 ;; esac
[ ! -e "$dir/stuck" ] || { : >"$dir/hung"; exec sleep 1000; }
`

// mount is mount(8): [--no-canonicalize] -t nfs [-o OPTIONS] -- SERVER:PATH TARGET. Its helper is a child process, like
// the helper of the real mount(8).
const mount = `#!/bin/sh
dir=$(dirname "$0") options=rw
while [ "$1" != -- ]; do
  case $1 in
  --no-canonicalize) shift ;;
  -t) [ "$2" = nfs ] || exec /bin/mount "$@"; shift 2 ;;
  -o) options=$2; shift 2 ;;
  *) exec /bin/mount "$@" ;;
  esac
done
[ -e "$dir/mount.nfs" ] || { echo "mount: bad option; you might need a /sbin/mount.nfs helper program." >&2; exit 32; }
PATH=/usr/sbin:/usr/bin:/sbin:/bin "$dir/mount.nfs" "$2" "$3" -o "$options"
exit $?
`

// umount is umount(8). While the server is away, it hangs unless it is forced.
const umount = `#!/bin/sh
dir=$(dirname "$0")
echo "$*" >>"$dir/umounts"
if [ -e "$dir/away" ]; then
  case $1 in --force) ;; *) : >"$dir/hung"; sleep 1000; exit 32 ;; esac
fi
[ "$1" != --force ] || shift # a bind mount is none of NFS, and cannot be forced
exec /bin/umount "$@"
`

// Server stands for all servers.
type Server struct {
	t *testing.T
	// Dir has the programs mount and umount, and mount.nfs.
	Dir string
}

// New returns a server without exports.
func New(t *testing.T) *Server {
	t.Helper()
	if os.Getuid() != 0 {
		t.Fatal("this test mounts: run it as root")
	}
	s := &Server{t: t, Dir: t.TempDir()}
	for name, text := range map[string]string{"mount": mount, "umount": umount, "mount.nfs": helper} {
		must.OK(t, os.WriteFile(filepath.Join(s.Dir, name), []byte(text), 0o700)) //nolint:gosec // a program
	}
	return s
}

// Export returns the directory of an export, which it creates.
func (s *Server) Export(path string) string {
	s.t.Helper()
	dir := filepath.Join(s.Dir, "exports", path)
	must.OK(s.t, os.MkdirAll(dir, 0o750))
	return dir
}

// SetAway has mounts and unmounts hang until they are killed, or ends that.
func (s *Server) SetAway(away bool) { s.set("away", away) }

// SetStuck has mounts hang after they have mounted, or ends that.
func (s *Server) SetStuck(stuck bool) { s.set("stuck", stuck) }

func (s *Server) set(name string, is bool) {
	s.t.Helper()
	if path := filepath.Join(s.Dir, name); is {
		must.OK(s.t, os.WriteFile(path, nil, 0o600))
	} else if err := os.Remove(path); !os.IsNotExist(err) {
		must.OK(s.t, err)
	}
}

// RemoveHelper removes mount.nfs, as on a node without nfs-common.
func (s *Server) RemoveHelper() {
	s.t.Helper()
	must.OK(s.t, os.Remove(filepath.Join(s.Dir, "mount.nfs")))
}

// Hung reports whether a mount or an unmount has hung since the last call.
func (s *Server) Hung() bool { return os.Remove(filepath.Join(s.Dir, "hung")) == nil }

// Mounts and Umounts return the arguments of each mount.nfs and of each umount(8).
func (s *Server) Mounts() []string { return s.lines("mounts") }

// Umounts is documented with Mounts.
func (s *Server) Umounts() []string { return s.lines("umounts") }

func (s *Server) lines(name string) []string {
	s.t.Helper()
	text, err := os.ReadFile(filepath.Join(s.Dir, name))
	if os.IsNotExist(err) {
		return nil
	}
	must.OK(s.t, err)
	return strings.Split(strings.TrimSpace(string(text)), "\n")
}

// Install puts mount.nfs where the real mount(8) finds it. The test must have a mount namespace of its own
// (test/ownmounts).
func (s *Server) Install() {
	s.t.Helper()
	at, err := filepath.EvalSymlinks("/sbin")
	must.OK(s.t, err)
	only := s.t.TempDir() // without the others
	text, err := os.ReadFile(filepath.Join(s.Dir, "mount.nfs"))
	must.OK(s.t, err)
	script := strings.Replace(string(text), `$(dirname "$0")`, "'"+s.Dir+"'", 1)
	must.OK(s.t, os.WriteFile(filepath.Join(only, "mount.nfs"), []byte(script), 0o700)) //nolint:gosec // a program
	must.OK(s.t, unix.Mount("overlay", at, "overlay", 0, "lowerdir="+only+":"+at))
	s.t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
}
