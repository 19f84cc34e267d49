package volume

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/references"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/own"
)

// bootFile has the boot id of the last run that reported lost volumes.
const (
	bootFile     = own.VolumesBoot
	newBootFile  = own.VolumesBoot + ".new"
	bootFileMode = 0o600
	maxBootBytes = 128 // the kernel's is a UUID
	// conditionsFile is the file of runtime/pod/gate. It is removed with its pod.
	conditionsFile = "conditions.yaml"
)

// Recorded is a pod as the journal has it.
type Recorded struct {
	UID string
	// Manifest is the pod's; without it nothing of it counts as lost.
	Manifest *corev1.Pod
	// SetUp has the names of the volumes that are set up.
	SetUp []string
	// Gone is set if nothing of the pod is left.
	Gone bool
}

// Found is what the node has otherwise than the journal.
type Found struct {
	// Lost has the pods whose volumes are not there, in the order of the pods.
	Lost []*journaletv1.VolumesLost
	// Unknown has the UIDs of the directories of pods that the journal does not have, sorted.
	Unknown []string
	// Left has the UIDs of the pods that are gone and have a directory all the same, sorted: records were lost that came
	// after its creation.
	Left []string
}

// Reconcile compares the journal's pods with the mount table and the pods' directories, and changes nothing. It is for
// the start of the agent, before the first call. After a reboot, that is until Reconciled was called with this boot id,
// files on disk count as lost, because they were not synced.
func (d *Driver) Reconcile(pods []Recorded, bootID string) (Found, error) {
	all := filepath.Join(d.opts.RootDir, own.Pods)
	points, err := d.mounts.below(all)
	if err != nil {
		return Found{}, err
	}
	r := reconciler{Driver: d, mounted: map[string]string{}, rebooted: !d.bootedAs(bootID)}
	for _, p := range points {
		r.mounted[p.path] = p.fsType
	}
	var found Found
	known, gone := map[string]bool{}, map[string]bool{}
	for _, p := range pods {
		known[p.UID], gone[p.UID] = true, p.Gone
		var names []string
		for _, name := range p.SetUp {
			if p.Manifest != nil && r.lost(p.Manifest, find(p.Manifest, name)) {
				names = append(names, name)
			}
		}
		if slices.Sort(names); len(names) > 0 {
			found.Lost = append(found.Lost, &journaletv1.VolumesLost{Uid: p.UID, Names: names})
		}
	}
	for e, err := range bounded.Entries(all) {
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return found, fmt.Errorf("list the directories of pods: %w", err)
		}
		uid := e.Name()
		if known[uid] && !gone[uid] || !e.IsDir() || messages.CheckID(uid) != nil || !d.createdHere(uid) {
			continue
		}
		if gone[uid] {
			found.Left = append(found.Left, uid)
		} else {
			found.Unknown = append(found.Unknown, uid)
		}
	}
	slices.Sort(found.Unknown)
	slices.Sort(found.Left)
	return found, nil
}

type reconciler struct {
	*Driver
	mounted  map[string]string // the type of the newest file system at each mount point
	rebooted bool
}

// lost reports whether a volume that was set up is not there.
func (r *reconciler) lost(pod *corev1.Pod, v *corev1.Volume) bool {
	if v != nil && references.IsCSI(v) && r.opts.CSI != nil {
		return r.opts.CSI.Lost(string(pod.UID), v.Name)
	}
	if v == nil || pluginOf(v) == "" {
		return false
	}
	path, err := r.Path(pod, v.Name)
	if err != nil {
		return false
	}
	if v.NFS != nil {
		return r.mounted[path] == "" // what is mounted is not read: its server may be away
	}
	kind := tmpfs
	switch {
	case v.ConfigMap != nil, v.EmptyDir != nil && v.EmptyDir.Medium == corev1.StorageMediumDefault:
		kind = ""
	case v.EmptyDir != nil && v.EmptyDir.Medium != corev1.StorageMediumMemory:
		kind = hugetlbfs
	}
	if kind != "" && r.mounted[path] != kind {
		return true
	}
	if v.EmptyDir == nil {
		path = filepath.Join(path, dataLink)
	}
	info, err := os.Stat(path)
	return err != nil || !info.IsDir() || v.ConfigMap != nil && r.rebooted
}

// createdHere reports whether a directory has what the agent creates for a pod, and nothing else: an operator may keep
// other things beside the pods.
func (d *Driver) createdHere(uid string) bool {
	root, err := d.openPod(uid, false)
	if err != nil {
		return false
	}
	defer root.Close()
	pods := false
	for e, err := range bounded.EntriesIn(root, ".") {
		if err != nil {
			return false
		}
		switch e.Name() {
		case volumesDir, subpathsDir, containersDir, pluginsDir:
			pods = pods || e.IsDir()
		case hostsFile, newHostsFile, usernsFile, newUsernsFile, resourcesFile, newResourcesFile,
			conditionsFile:
		default:
			if !strings.HasPrefix(e.Name(), hostsFile+".") { // a replaced hosts file
				return false
			}
		}
	}
	return pods
}

func (d *Driver) bootedAs(id string) bool {
	last, err := bounded.ReadFile(filepath.Join(d.opts.RootDir, bootFile), maxBootBytes)
	return err == nil && id != "" && strings.TrimSpace(string(last)) == id
}

// Known reports whether an agent has begun in a root directory before, also one whose journal is lost.
func Known(rootDir string) bool {
	_, err := os.Lstat(filepath.Join(rootDir, bootFile))
	return !errors.Is(err, fs.ErrNotExist)
}

// Forget removes what outlives the journal in a root directory and is the agent's word for it: that an agent has begun
// there, and the pods' exclusive resources. It is called when a kubelet is to decide from there on. It may be repeated.
func Forget(rootDir string) error {
	if err := eachFile(rootDir, resourcesFile, (*os.Root).Remove).err(); err != nil {
		return fmt.Errorf("remove the pods' exclusive resources: %w", err)
	}
	if err := os.Remove(filepath.Join(rootDir, bootFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the boot id: %w", err)
	}
	return nil
}

// Reconciled notes that all that Reconcile has found lost in this boot is in the journal.
func (d *Driver) Reconciled(bootID string) error {
	if d.bootedAs(bootID) {
		return nil
	}
	root, err := os.OpenRoot(d.opts.RootDir)
	if err != nil {
		return fmt.Errorf("note the boot id: %w", err)
	}
	defer root.Close()
	if err := root.WriteFile(newBootFile, []byte(bootID+"\n"), bootFileMode); err != nil {
		return fmt.Errorf("note the boot id: %w", err)
	}
	if err := root.Rename(newBootFile, bootFile); err != nil {
		return fmt.Errorf("note the boot id: %w", err)
	}
	return nil
}
