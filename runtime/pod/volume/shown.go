package volume

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
)

// files is a directory of a file system with what is below it.
type files struct{ device, root string }

// show reports whether a mount shows some of the files and no others, also files that were removed.
func (f files) show(p mountPoint) bool {
	return p.device == f.device && within(p.root, f.root)
}

// ownFiles are the files of a pod. In a volume of mountPropagation Bidirectional each mount of the runtime for a
// container is on the node as well, and outlives the container: the termination message, the hosts file, other
// volumes and subpaths. Such a mount differs from one of the container's own by what it shows only: the pod's files
// are the agent's to unmount, wherever they are in the pod's volumes. A hostPath is of others.
type ownFiles struct {
	// pod has the pod's directory, none if the mount table does not have it. Nobody else has use for these files.
	pod []files
	// mounted has what the agent has mounted below it. Some of it may be mounted elsewhere, too: a volume of a CSI driver
	// is, where it is staged.
	mounted []files
	// outside means that the mount table shows some of pod outside the pod's directory.
	outside bool
}

func (o ownFiles) show(p mountPoint) bool {
	return anyShows(o.pod, p) || anyShows(o.mounted, p)
}

func anyShows(all []files, p mountPoint) bool {
	for _, f := range all {
		if f.show(p) {
			return true
		}
	}
	return false
}

// ownFiles returns the pod's files. points are the mounts below its directory.
func (t *tearDown) ownFiles(points []mountPoint) (ownFiles, error) {
	var out ownFiles
	for _, p := range points {
		_, ours := t.volumeOf(p)
		if ours || t.isPublished(p) {
			out.mounted = append(out.mounted, files{p.device, p.root})
		}
	}
	dir, err := filepath.EvalSymlinks(t.PodDir(t.uid))
	if err != nil {
		return out, err
	}
	table, err := t.mounts.below("/")
	if err != nil {
		return out, err
	}
	var holder mountPoint // the newest of the mounts next to the directory
	for _, p := range table {
		if within(dir, p.path) && len(p.path) >= len(holder.path) {
			holder = p
		}
	}
	if holder.path != "" {
		rest, err := filepath.Rel(holder.path, dir)
		if err != nil {
			return out, err
		}
		out.pod = append(out.pod, files{holder.device, filepath.Join(holder.root, rest)})
	}
	out.outside = slices.ContainsFunc(table, func(p mountPoint) bool { return out.showOutside(p, dir) })
	return out, nil
}

// showOutside reports whether a mount shows files of the pod's directory outside it, and not the directory's own place.
func (o ownFiles) showOutside(p mountPoint, dir string) bool {
	return anyShows(o.pod, p) && !within(p.path, dir) && !within(dir, p.path)
}

// isPublished reports whether a mount is a volume of a CSI driver, <name>/mount.
func (t *tearDown) isPublished(p mountPoint) bool {
	rel, err := filepath.Rel(filepath.Join(t.PodDir(t.uid), volumesDir, csiPlugin), p.path)
	return err == nil && !strings.HasPrefix(rel, "..") && strings.Count(rel, "/") == 1
}

// unmountElsewhere unmounts what shows the pod's directory outside it, as below a hostPath of mountPropagation
// Bidirectional. It leaves a volume in memory there: that its file system is the pod's alone is not certain. The table
// is read again: what was unmounted meanwhile may have uncovered a mount of others.
func (t *tearDown) unmountElsewhere(own ownFiles) error {
	if !own.outside {
		return nil
	}
	dir, err := filepath.EvalSymlinks(t.PodDir(t.uid))
	if err != nil {
		return err
	}
	table, err := t.mounts.below("/")
	if err != nil {
		return err
	}
	var failed []error
	for i := len(table) - 1; i >= 0; i-- { // a mount after those on it
		p := table[i]
		if own.showOutside(p, dir) {
			failed = append(failed, t.release(p))
		}
	}
	return errors.Join(failed...)
}

// within reports whether a path is a directory or below it.
func within(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}
