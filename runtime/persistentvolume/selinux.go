package persistentvolume

import (
	"fmt"
	"slices"
	"strings"

	"github.com/opencontainers/selinux/go-selinux"
	"github.com/opencontainers/selinux/go-selinux/label"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// FileLabel returns the SELinux label of files that a process with these options may use; what they leave out is the
// node's default.
func FileLabel(o *corev1.SELinuxOptions) (string, error) {
	var args []string
	for _, part := range []struct{ name, value string }{
		{"user", o.User}, {"role", o.Role}, {"type", o.Type}, {"level", o.Level},
	} {
		if part.value != "" {
			args = append(args, part.name+":"+part.value)
		}
	}
	process, file, err := label.InitLabels(args)
	if err != nil {
		return "", fmt.Errorf("the SELinux label of %s: %w", strings.Join(args, " "), err)
	}
	selinux.ReleaseLabel(process) // it reserves a level that it has chosen itself
	return file, nil
}

// seLinuxLabel returns the SELinux label that the volume is mounted with for the pod (KEP-1710, in 1.37 for all access
// modes): if the volume is a PersistentVolume, its driver declares that it can be mounted so, the pod's containers name
// a level, and the pod does not request Recursive. Otherwise the label is empty, and the runtime labels the files one
// by one.
//
// Without a level the runtime chooses one, which nobody else can know. kubelet: it mounts with a level of its own.
func (s *setUp) seLinuxLabel() (string, error) {
	policy := ptr.Deref(s.pod.Spec.SecurityContext, corev1.PodSecurityContext{}).SELinuxChangePolicy
	if s.opts.SELinux == nil || s.src.inline || s.src.block || !ptr.Deref(s.src.driver.SELinuxMount, false) ||
		ptr.Deref(policy, "") == corev1.SELinuxChangePolicyRecursive {
		return "", nil
	}
	var labels []string
	for _, o := range seLinuxOptions(s.pod, s.vol.Name) {
		if o.Level == "" {
			return "", nil
		}
		l, err := s.opts.SELinux(o)
		if err != nil {
			return "", err
		}
		if strings.ContainsAny(l, "\"\n") { // it becomes a part of mount options
			return "", fmt.Errorf("the SELinux label %q cannot be a mount option; change seLinuxOptions", l)
		}
		labels = append(labels, l)
	}
	slices.Sort(labels)
	if labels = slices.Compact(labels); len(labels) > 1 {
		return "", fmt.Errorf("multiple SELinux labels found: %s; give all containers that mount the volume one of them, "+
			"or set seLinuxChangePolicy: Recursive", strings.Join(labels, ","))
	}
	return strings.Join(labels, ""), nil
}

// seLinuxOptions returns the SELinux options of a pod's containers that mount a volume, without containers that have no
// options.
func seLinuxOptions(pod *corev1.Pod, volume string) (all []*corev1.SELinuxOptions) {
	collect := func(mounts []corev1.VolumeMount, own *corev1.SecurityContext) {
		if !slices.ContainsFunc(mounts, func(m corev1.VolumeMount) bool { return m.Name == volume }) {
			return
		}
		o := ptr.Deref(pod.Spec.SecurityContext, corev1.PodSecurityContext{}).SELinuxOptions
		if own != nil && own.SELinuxOptions != nil {
			o = own.SELinuxOptions
		}
		if o != nil {
			all = append(all, o)
		}
	}
	for i := range pod.Spec.InitContainers {
		collect(pod.Spec.InitContainers[i].VolumeMounts, pod.Spec.InitContainers[i].SecurityContext)
	}
	for i := range pod.Spec.Containers {
		collect(pod.Spec.Containers[i].VolumeMounts, pod.Spec.Containers[i].SecurityContext)
	}
	for i := range pod.Spec.EphemeralContainers {
		collect(pod.Spec.EphemeralContainers[i].VolumeMounts, pod.Spec.EphemeralContainers[i].SecurityContext)
	}
	return all
}

// checkLabel returns an error while the volume is mounted on this node with another SELinux label than the pod's: all
// its mounts have one. The pod waits until the other pods are gone.
func (s *setUp) checkLabel() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for uid, dirs := range s.pods {
		for _, r := range dirs {
			if r.key() == s.src.key && r.Boot == s.opts.BootID && r.Stage != claimed && r.SELinux != s.label {
				return fmt.Errorf("conflicting SELinux labels of volume %s: pod %s has it mounted with %q, and this pod "+
					"wants %q", s.src.dir, uid, r.SELinux, s.label)
			}
		}
	}
	return nil
}

// mountOptions adds a label to the options of a mount.
func mountOptions(options []string, seLinuxLabel string) []string {
	if seLinuxLabel == "" {
		return options
	}
	return append(slices.Clone(options), fmt.Sprintf("context=%q", seLinuxLabel)) // a level has commas
}
