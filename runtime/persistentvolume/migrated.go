package persistentvolume

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	csitranslation "k8s.io/csi-translation-lib"
	"k8s.io/klog/v2"

	"github.com/journalet/journalet/runtime/defect"
)

// Volumes of clouds that Kubernetes once mounted itself are volumes of a CSI driver now (ADR 101). Their objects stay
// as they were written, so each is translated when it is read, before anything else is done with it.

// storagePolicyAttribute is the attribute of a vsphereVolume for its storage policy (csi-translation-lib).
const storagePolicyAttribute = "storagepolicyname"

// translator is the library that the scheduler and the attach controller translate with, too. It has no state.
var translator csitranslation.CSITranslator

// migrated returns a PersistentVolume as it is for the CSI driver that has taken over its kind, and any other
// PersistentVolume unchanged. The words of the error are the kubelet's.
func migrated(pv *corev1.PersistentVolume) (*corev1.PersistentVolume, error) {
	if !translator.IsPVMigratable(pv) {
		return pv, nil
	}
	now, err := translate(func() (*corev1.PersistentVolume, error) {
		return translator.TranslateInTreePVToCSI(klog.Logger{}, pv)
	})
	if err != nil {
		return nil, fmt.Errorf("PersistentVolume %s: failed to translate in-tree pv to CSI: %w", pv.Name, err)
	}
	return now, nil
}

// ofMigrated returns the source of an inline volume whose kind a CSI driver has taken over. It is no ephemeral volume
// of that driver: the control plane attaches it, and it is staged, as a PersistentVolume that nobody claims.
func ofMigrated(pod *corev1.Pod, vol *corev1.Volume) (*source, error) {
	vol = vol.DeepCopy()
	policy := ""
	if v := vol.VsphereVolume; v != nil {
		policy, v.StoragePolicyName = v.StoragePolicyName, "" // the library (0.37.2) panics on it
	}
	pv, err := translate(func() (*corev1.PersistentVolume, error) {
		return translator.TranslateInTreeInlineVolumeToCSI(klog.Logger{}, vol, pod.Namespace)
	})
	if err != nil {
		return nil, fmt.Errorf("failed to translate in-tree pv to CSI: %w", err)
	}
	if policy != "" {
		pv.Spec.CSI.VolumeAttributes[storagePolicyAttribute] = policy
	}
	// The name of a directory, as the kubelet has it: one of Azure is a path of the cloud.
	s := &source{dir: strings.ReplaceAll(pv.Name, "/", "~"), readOnly: pv.Spec.CSI.ReadOnly, migrated: true}
	return s.ofDriver(pv), nil
}

// translate calls the library, which trusts its objects: what it panics on is no reason to end the agent.
func translate(call func() (*corev1.PersistentVolume, error)) (pv *corev1.PersistentVolume, err error) {
	defer defect.Recover(func(string) {
		pv, err = nil, errors.New("the volume is not as the translation expects it")
	})
	pv, err = call()
	if err == nil && (pv == nil || pv.Spec.CSI == nil) {
		return nil, fmt.Errorf("the translation has no CSI source")
	}
	return pv, err
}

// DriverOf returns the name of the CSI driver that a pod's volume names in the manifest, itself or by a kind that the
// driver has taken over; "" for none.
func DriverOf(v *corev1.Volume) string {
	if v.CSI != nil {
		return v.CSI.Driver
	}
	kind, err := translator.GetInTreePluginNameFromSpec(nil, v)
	if err != nil {
		return ""
	}
	driver, err := translator.GetCSINameFromInTreeName(kind)
	if err != nil {
		return ""
	}
	return driver
}
