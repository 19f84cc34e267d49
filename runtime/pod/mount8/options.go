package mount8

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
)

// maxOptionsBytes bounds all options of a mount together: the kernel takes one page of them.
const maxOptionsBytes = 4095

// OptionsOf returns the mount options of a PersistentVolume. As in the kubelet, its annotation of mount options
// replaces the options of its spec.
func OptionsOf(pv *corev1.PersistentVolume) []string {
	if text, ok := pv.Annotations[corev1.MountOptionAnnotation]; ok {
		return strings.Split(text, ",")
	}
	return pv.Spec.MountOptions
}

// Join returns options as one word, sorted and each once; empty: none.
func Join(options []string, readOnly bool) string {
	all := slices.DeleteFunc(slices.Clone(options), func(o string) bool { return o == "" })
	if readOnly {
		all = append(all, "ro")
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ",")
}

// Check returns why mount(8) cannot take options; empty: it can. The options come from somebody who may create
// PersistentVolumes, and are passed on.
func Check(options string) string {
	if len(options) > maxOptionsBytes || strings.ContainsFunc(options, unicode.IsControl) {
		return fmt.Sprintf("the mount options %.64q are longer than %d bytes or have control characters", options,
			maxOptionsBytes)
	}
	return ""
}
