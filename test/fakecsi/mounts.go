package fakecsi

import (
	"slices"

	"github.com/moby/sys/mountinfo"
	"golang.org/x/sys/unix"
)

// Mounts returns the mount points at and below a path, one a mount, sorted.
func Mounts(below string) []string {
	infos, err := mountinfo.GetMounts(mountinfo.PrefixFilter(below))
	if err != nil {
		return []string{err.Error()}
	}
	var all []string
	for _, i := range infos {
		all = append(all, i.Mountpoint)
	}
	slices.Sort(all)
	return all
}

// Clean unmounts what is below a path, for the end of a test.
func Clean(below string) {
	all := Mounts(below)
	slices.Reverse(all)
	for _, path := range all {
		_ = unix.Unmount(path, unix.MNT_DETACH)
	}
}
