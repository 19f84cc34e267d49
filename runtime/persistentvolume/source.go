package persistentvolume

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/container-storage-interface/spec/lib/go/csi"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/component-helpers/storage/ephemeral"
	"k8s.io/utils/ptr"

	"github.com/journalet/journalet/actors/containers"
	"github.com/journalet/journalet/actors/references"
	"github.com/journalet/journalet/runtime/pod/mount8"
	"github.com/journalet/journalet/runtime/pod/nfs"
)

// Objects are what is read of the API server. Errors are of apimachinery's package api/errors, or of the transport.
type Objects interface {
	Claim(ctx context.Context, namespace, name string) (*corev1.PersistentVolumeClaim, error)
	Volume(ctx context.Context, name string) (*corev1.PersistentVolume, error)
	Driver(ctx context.Context, name string) (*storagev1.CSIDriver, error)
	Attachment(ctx context.Context, name string) (*storagev1.VolumeAttachment, error)
	Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error)
	// PatchClaim patches the status of a claim by a strategic merge patch.
	PatchClaim(ctx context.Context, namespace, name string, patch []byte) (*corev1.PersistentVolumeClaim, error)
	// Token requests a token of a pod's service account, bound to the pod.
	Token(ctx context.Context, pod *corev1.Pod, r storagev1.TokenRequest) (authenticationv1.TokenRequestStatus, error)
}

// source is what a volume of a pod is, as the API server has it.
type source struct {
	key
	// dir is the name of the volume's directory of the pod.
	dir    string
	inline bool
	// driver is the CSIDriver's spec; zero without a CSIDriver.
	driver storagev1.CSIDriverSpec

	attributes   map[string]string
	fsType       string
	accessMode   corev1.PersistentVolumeAccessMode
	mountOptions []string
	readOnly     bool
	// migrated: it is of a kind of clouds that the driver has taken over.
	migrated bool
	// block: it is a block device, and no file system.
	block bool
	// once: it is for one pod at a time.
	once bool
	// local is the path of a local volume, which has no driver; empty for all others. fsType and mountOptions are of the
	// file system on it, if it is a block device.
	local string
	// hostPath is the path of a hostPath PersistentVolume; nil for all others.
	hostPath *corev1.HostPathVolumeSource
	// nfs is the export of an NFS PersistentVolume; nil for all others.
	nfs *nfs.Source
	// stageSecret, publishSecret and expandSecret are nil without a Secret.
	stageSecret, publishSecret, expandSecret *corev1.SecretReference
	// claim is what the pod claims the volume by, nil for an inline volume. capacity is its PersistentVolume's.
	claim    *corev1.PersistentVolumeClaim
	capacity resource.Quantity
}

// attached reports whether the control plane attaches the volume to the node.
func (s *source) attached() bool {
	return !s.inline && !s.driverless() && ptr.Deref(s.driver.AttachRequired, true)
}

// driverless reports whether the agent sets the volume up itself.
func (s *source) driverless() bool { return s.local != "" || s.hostPath != nil || s.nfs != nil }

// republished reports whether the driver requires that the volume is published again and again.
func (s *source) republished() bool { return ptr.Deref(s.driver.RequiresRepublish, false) }

// resolve reads what a volume of a pod is.
func (v *Volumes) resolve(ctx context.Context, o Objects, pod *corev1.Pod, vol *corev1.Volume) (*source, error) {
	s, err := v.inlineOrClaimed(ctx, o, pod, vol)
	if err != nil {
		return nil, err
	}
	err = errors.Join(checkName("driver", s.key.driver), checkHandle(s.handle), checkName("volume", s.dir),
		checkUse(pod, vol.Name, s.block))
	if err != nil {
		return nil, err
	}
	if s.driverless() {
		return s, nil
	}
	d, err := o.Driver(ctx, s.key.driver)
	switch {
	case err == nil:
		s.driver = d.Spec
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("read CSIDriver %s: %w", s.key.driver, err)
	case s.inline:
		return nil, fmt.Errorf("volume mode %q not supported by driver %s (no CSIDriver object)",
			storagev1.VolumeLifecycleEphemeral, s.key.driver)
	}
	if s.inline && !slices.Contains(s.driver.VolumeLifecycleModes, storagev1.VolumeLifecycleEphemeral) {
		return nil, fmt.Errorf("volume mode %q not supported by driver %s (only supports %q)",
			storagev1.VolumeLifecycleEphemeral, s.key.driver, s.driver.VolumeLifecycleModes)
	}
	return s, nil
}

func (v *Volumes) inlineOrClaimed(
	ctx context.Context, o Objects, pod *corev1.Pod, vol *corev1.Volume,
) (*source, error) {
	if vol.CSI != nil {
		s := &source{
			key: key{vol.CSI.Driver, inlineHandle(string(pod.UID), vol.Name)}, dir: vol.Name, inline: true,
			attributes: vol.CSI.VolumeAttributes, fsType: ptr.Deref(vol.CSI.FSType, ""),
			accessMode: corev1.ReadWriteOnce, readOnly: ptr.Deref(vol.CSI.ReadOnly, false),
		}
		if r := vol.CSI.NodePublishSecretRef; r != nil {
			s.publishSecret = &corev1.SecretReference{Namespace: pod.Namespace, Name: r.Name}
		}
		return s, nil
	}
	if references.IsMigrated(vol) {
		return ofMigrated(pod, vol)
	}
	claim, err := readClaim(ctx, o, pod, vol)
	if err != nil {
		return nil, err
	}
	if vol.Ephemeral != nil {
		if err := ephemeral.VolumeIsForPod(pod, claim); err != nil {
			return nil, err
		}
	}
	switch {
	case claim.DeletionTimestamp != nil:
		return nil, fmt.Errorf("PVC %s/%s is being deleted", claim.Namespace, claim.Name)
	case claim.Status.Phase != corev1.ClaimBound || claim.Spec.VolumeName == "":
		return nil, fmt.Errorf("PVC %s/%s is not bound", claim.Namespace, claim.Name)
	}
	pv, err := o.Volume(ctx, claim.Spec.VolumeName)
	if err != nil {
		return nil, fmt.Errorf("read PersistentVolume %s: %w", claim.Spec.VolumeName, err)
	}
	written := pv
	if pv, err = migrated(pv); err != nil {
		return nil, err
	}
	if err := v.checkAffinity(pv); err != nil {
		return nil, err
	}
	s, err := ofPersistentVolume(pv, claim, vol.PersistentVolumeClaim != nil && vol.PersistentVolumeClaim.ReadOnly)
	if err == nil {
		s.migrated = pv != written
	}
	return s, err
}

// readClaim reads the claim of a volume that is no inline one.
func readClaim(
	ctx context.Context, o Objects, pod *corev1.Pod, vol *corev1.Volume,
) (*corev1.PersistentVolumeClaim, error) {
	name := ephemeral.VolumeClaimName(pod, vol)
	if c := vol.PersistentVolumeClaim; c != nil {
		name = c.ClaimName
	}
	claim, err := o.Claim(ctx, pod.Namespace, name)
	if err != nil {
		return nil, fmt.Errorf("read PersistentVolumeClaim %s/%s: %w", pod.Namespace, name, err)
	}
	return claim, nil
}

// ofPersistentVolume returns the source of a claim that is bound.
func ofPersistentVolume(
	pv *corev1.PersistentVolume, claim *corev1.PersistentVolumeClaim, readOnly bool,
) (*source, error) {
	c := pv.Spec.CSI
	switch {
	case pv.Spec.ClaimRef == nil || pv.Spec.ClaimRef.UID != claim.UID:
		return nil, fmt.Errorf("PersistentVolume %s is bound to another claim than %s/%s", pv.Name, claim.Namespace,
			claim.Name)
	case c == nil && pv.Spec.Local == nil && pv.Spec.HostPath == nil && pv.Spec.NFS == nil:
		kind, remedy := kindOf(pv)
		return nil, fmt.Errorf("PersistentVolume %s is of %s, which this version does not mount; %s", pv.Name, kind, remedy)
	}
	s := &source{
		dir: pv.Name, accessMode: corev1.ReadWriteOnce, mountOptions: pv.Spec.MountOptions, readOnly: readOnly,
		block: ptr.Deref(pv.Spec.VolumeMode, corev1.PersistentVolumeFilesystem) == corev1.PersistentVolumeBlock,
		claim: claim, capacity: pv.Spec.Capacity[corev1.ResourceStorage],
	}
	if h := pv.Spec.HostPath; h != nil {
		if s.block {
			return nil, fmt.Errorf("PersistentVolume %s is a hostPath with volumeMode Block; use a local one", pv.Name)
		}
		s.key, s.hostPath = key{hostPathDriver, pv.Name}, h
		return s, nil
	}
	if pv.Spec.NFS != nil {
		return s.ofExport(pv)
	}
	s.once = oncePod(pv) // each pod has a hostPath or an export for itself. kubelet: the same
	if c == nil {
		s.key, s.local = key{localDriver, pv.Name}, pv.Spec.Local.Path
		s.fsType, s.mountOptions = ptr.Deref(pv.Spec.Local.FSType, ""), mount8.OptionsOf(pv)
		s.driver.FSGroupPolicy = ptr.To(storagev1.FileFSGroupPolicy)
		return s, nil
	}
	return s.ofDriver(pv), nil
}

// ofDriver completes the source of a volume of a CSI driver.
func (s *source) ofDriver(pv *corev1.PersistentVolume) *source {
	c := pv.Spec.CSI
	s.key, s.attributes, s.fsType = key{c.Driver, c.VolumeHandle}, c.VolumeAttributes, c.FSType
	s.stageSecret, s.publishSecret, s.expandSecret = c.NodeStageSecretRef, c.NodePublishSecretRef, c.NodeExpandSecretRef
	s.accessMode = corev1.ReadWriteOnce
	if len(pv.Spec.AccessModes) > 0 {
		s.accessMode = pv.Spec.AccessModes[0]
	}
	return s
}

// checkUse refuses a pod that mounts a block device, or has a file system as a device. The words are the kubelet's.
func checkUse(pod *corev1.Pod, volume string, block bool) error {
	if !block {
		if containers.HasDevice(pod, volume) {
			return fmt.Errorf("volume %s has volumeMode Filesystem, but is specified in volumeDevices", volume)
		}
		return nil
	}
	for c := range containers.All(pod) {
		if slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == volume }) {
			return fmt.Errorf("volume %s has volumeMode Block, but is specified in volumeMounts", volume)
		}
	}
	return nil
}

// capability returns how a volume is to be accessed. group is set if the driver sets the volume's group, and label is
// the SELinux label of its mount, empty for none.
func (s *source) capability(c capabilities, group *int64, label string) *csi.VolumeCapability {
	mode := &csi.VolumeCapability_AccessMode{Mode: accessMode(s.accessMode, c.multiWriter)}
	if s.block {
		return &csi.VolumeCapability{
			AccessType: &csi.VolumeCapability_Block{Block: &csi.VolumeCapability_BlockVolume{}}, AccessMode: mode,
		}
	}
	mount := &csi.VolumeCapability_MountVolume{FsType: s.fsType, MountFlags: mountOptions(s.mountOptions, label)}
	if c.group && group != nil {
		mount.VolumeMountGroup = strconv.FormatInt(*group, 10)
	}
	return &csi.VolumeCapability{AccessType: &csi.VolumeCapability_Mount{Mount: mount}, AccessMode: mode}
}

// accessMode returns the mode of CSI. A driver that knows only one writer a node gets that for both of them, as from
// the kubelet.
func accessMode(m corev1.PersistentVolumeAccessMode, multiWriter bool) csi.VolumeCapability_AccessMode_Mode {
	switch m {
	case corev1.ReadOnlyMany:
		return csi.VolumeCapability_AccessMode_MULTI_NODE_READER_ONLY
	case corev1.ReadWriteMany:
		return csi.VolumeCapability_AccessMode_MULTI_NODE_MULTI_WRITER
	case corev1.ReadWriteOnce:
		if multiWriter {
			return csi.VolumeCapability_AccessMode_SINGLE_NODE_MULTI_WRITER
		}
	case corev1.ReadWriteOncePod:
		if multiWriter {
			return csi.VolumeCapability_AccessMode_SINGLE_NODE_SINGLE_WRITER
		}
	}
	return csi.VolumeCapability_AccessMode_SINGLE_NODE_WRITER
}

// podInfo adds what a driver gets to know of the pod, if it wants to, to a volume's attributes. The keys are the
// kubelet's.
func (s *source) podInfo(pod *corev1.Pod) map[string]string {
	all := maps.Clone(s.attributes)
	if all == nil {
		all = map[string]string{}
	}
	if ptr.Deref(s.driver.PodInfoOnMount, false) {
		all["csi.storage.k8s.io/pod.name"] = pod.Name
		all["csi.storage.k8s.io/pod.namespace"] = pod.Namespace
		all["csi.storage.k8s.io/pod.uid"] = string(pod.UID)
		all["csi.storage.k8s.io/serviceAccount.name"] = pod.Spec.ServiceAccountName
		all["csi.storage.k8s.io/ephemeral"] = strconv.FormatBool(s.inline)
	}
	return all
}
