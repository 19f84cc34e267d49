package persistentvolume

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/durable"
	"github.com/journalet/journalet/runtime/own"
)

// Names of the kubelet below the root directory, and below a pod's.
const (
	// podPlugin is the directory of CSI volumes below a pod's directory of volumes.
	podPlugin = "kubernetes.io~csi"
	// stagedDir is the directory of staged volumes: <driver>/<hash of the handle>.
	stagedDir    = own.Staged
	globalMount  = "globalmount"
	podMount     = "mount"
	recordFile   = "vol_data.json"
	dirMode      = 0o750
	maxRecord    = 16 << 10 // bytes; names and a handle, of 128 bytes each in practice
	maxNameBytes = 253      // of an object's name
)

// Values of record.Stage.
const (
	// claimed: nothing was done, or a driver has said so.
	claimed = "claimed"
	// staging and publishing: the RPC began, and its outcome is not known.
	staging, publishing = "staging", "publishing"
	// staged and published: the RPC has succeeded in the boot of record.Boot.
	staged, published = "staged", "published"
)

// record is a vol_data.json: the claim of a pod on a volume, or that the volume is staged. A kubelet reads and writes
// the same file; it has no field of the second group, which it ignores.
type record struct {
	// Name is the volume's: the name of its PersistentVolume, or of the pod's volume if it is inline.
	Name string `json:"specVolID"`
	// Handle is the volume's id at its driver.
	Handle     string `json:"volumeHandle"`
	Driver     string `json:"driverName"`
	Node       string `json:"nodeName,omitempty"`
	Attachment string `json:"attachmentID,omitempty"`
	Mode       string `json:"volumeLifecycleMode,omitempty"`
	// SELinux is the label that the volume is mounted with; empty: none.
	SELinux string `json:"seLinuxMountContext,omitempty"`

	// Volumes has spec.volumes[].name, of each volume of the pod that is this one, with commas between.
	Volumes string `json:"podVolumes,omitempty"`
	// Attach is "true" if the control plane attaches the volume.
	Attach string `json:"attachRequired,omitempty"`
	// Stage is one of the constants above; empty in a file of a kubelet, whose outcome is not known.
	Stage string `json:"stage,omitempty"`
	// Boot is the boot id of the RPC that Stage is of.
	Boot string `json:"bootID,omitempty"`
	// Mounted is "true" if the driver has mounted something at the target, and not only created it.
	Mounted string `json:"mounted,omitempty"`
	// Block is "true" if the target is a block device and no directory.
	Block string `json:"block,omitempty"`
	// Migrated is "true" if the volume is of a kind of clouds that the driver has taken over; empty also in the record of
	// an older version.
	Migrated string `json:"migrated,omitempty"`
	// HostPath is the path of a hostPath PersistentVolume: nothing is mounted for it.
	HostPath string `json:"hostPath,omitempty"`
	// HostPathType is its type; empty: nothing is checked, also in the record of an older version.
	HostPathType string `json:"hostPathType,omitempty"`
	// Republish is "true" if the driver requires that the volume is published again and again.
	Republish string `json:"republish,omitempty"`
	// Expand is "true" if the driver expands volumes on nodes, and the pod may write to it. Size is what it has on
	// this node, such as 2Gi.
	Expand string `json:"expand,omitempty"`
	Size   string `json:"size,omitempty"`
}

// key identifies a volume on the node.
type key struct{ driver, handle string }

func (r *record) key() key { return key{r.Driver, r.Handle} }

// uniqueName is the name of a volume in the status of a Node.
func (k key) uniqueName() string { return "kubernetes.io/csi/" + k.driver + "^" + k.handle }

// refreshes reports whether something is repeated for the volume while its pod runs.
func (r *record) refreshes() bool {
	return r != nil && (r.Republish == "true" || r.Expand == "true" || r.Attach == "true")
}

// flag is how a record has a truth: a kubelet reads its fields as strings.
func flag(is bool) string {
	if is {
		return "true"
	}
	return ""
}

// volumes returns the names of the pod's volumes.
func (r *record) volumes() []string {
	if r.Volumes == "" {
		return nil
	}
	return strings.Split(r.Volumes, ",")
}

// isDone reports whether the RPC of a stage has succeeded in this boot.
func (r *record) isDone(stage, boot string) bool {
	return r != nil && r.Stage == stage && r.Boot == boot
}

// attachment returns the name of the VolumeAttachment of a volume on a node, as the control plane computes it.
func (k key) attachment(node string) string {
	return fmt.Sprintf("csi-%x", sha256.Sum256([]byte(k.handle+k.driver+node)))
}

// inlineHandle returns the id of an inline volume, as a kubelet computes it.
func inlineHandle(uid, volume string) string {
	return fmt.Sprintf("csi-%x", sha256.Sum256([]byte(uid+volume)))
}

// podsDir returns the directory of all pods.
func (v *Volumes) podsDir() string { return filepath.Join(v.opts.RootDir, own.Pods) }

// podDir returns the directory of a pod's CSI volumes.
func (v *Volumes) podDir(uid string) string {
	return filepath.Join(v.podsDir(), uid, "volumes", podPlugin)
}

// claimDir returns the directory of a pod's claim on a volume.
func (v *Volumes) claimDir(uid, dir string) string { return filepath.Join(v.podDir(uid), dir) }

// target returns where a volume of a pod is.
func (v *Volumes) target(uid, dir string) string {
	return filepath.Join(v.claimDir(uid, dir), podMount)
}

// stageDir returns the directory of a staged volume.
func (v *Volumes) stageDir(k key) string {
	return filepath.Join(v.opts.RootDir, stagedDir, k.driver, fmt.Sprintf("%x", sha256.Sum256([]byte(k.handle))))
}

// readRecord reads the record in a directory; nil if it has no record.
func (v *Volumes) readRecord(dir string) (*record, error) {
	b, err := v.opts.Files.Read(filepath.Join(dir, recordFile), maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	r := new(record)
	if err == nil {
		err = bounded.JSON(b, maxRecord, r)
	}
	if err == nil {
		err = errors.Join(checkName("driver", r.Driver), checkHandle(r.Handle), checkName("volume", r.Name))
	}
	if err != nil {
		return nil, fmt.Errorf("%s cannot be read (%w); unmount what is mounted in its directory, and remove that",
			filepath.Join(dir, recordFile), err)
	}
	return r, nil
}

// writeRecord replaces the record in a directory, which it creates.
func (v *Volumes) writeRecord(dir string, r *record) error {
	if err := v.opts.Files.MkdirAll(dir); err != nil {
		return fmt.Errorf("create the directory of a volume: %w", err)
	}
	b, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode the record of a volume: %w", err)
	}
	if err := v.opts.Files.Write(filepath.Join(dir, recordFile), b); err != nil {
		return fmt.Errorf("write the record of a volume: %w", err)
	}
	return nil
}

// removeRecord removes a record, and then its directory. Nothing else may be in there.
func (v *Volumes) removeRecord(dir string) error {
	for _, path := range []string{
		filepath.Join(dir, recordFile+durable.PartSuffix), filepath.Join(dir, recordFile), dir,
	} {
		if err := v.opts.Files.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the directory of a volume: %w", err)
		}
	}
	return nil
}

// checkName refuses what cannot be a part of a path.
func checkName(what, name string) error {
	if name == "" || len(name) > maxNameBytes || strings.HasPrefix(name, ".") || strings.ContainsAny(name, "/\x00") {
		return fmt.Errorf("%.64q cannot be the name of a %s", name, what)
	}
	return nil
}

// maxHandleBytes bounds a volume's id. CSI allows 128 bytes, and drivers take more.
const maxHandleBytes = 4 << 10

func checkHandle(handle string) error {
	if handle == "" || len(handle) > maxHandleBytes {
		return fmt.Errorf("a volume's handle of %d bytes is none; it has from 1 to %d", len(handle), maxHandleBytes)
	}
	return nil
}
