package pods

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// AddMounts gives a pod volumes of each kind, and its containers mounts of them with paths in the volumes.
func (m *Generator) AddMounts(p *corev1.Pod) {
	s := &p.Spec
	for i := range 1 + m.N(4) {
		s.Volumes = append(s.Volumes, m.mountable(fmt.Sprintf("v%d", i)))
	}
	for i := range s.Containers {
		c := &s.Containers[i]
		c.Env = append(c.Env, corev1.EnvVar{Name: "A", Value: "a"}, corev1.EnvVar{Name: "EMPTY"},
			corev1.EnvVar{Name: "UP", Value: "../up"}, corev1.EnvVar{Name: "ROOT", Value: "/etc"},
			corev1.EnvVar{Name: "POD", ValueFrom: &corev1.EnvVarSource{
				FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}})
		c.VolumeMounts = nil
		for j := range m.N(4) {
			c.VolumeMounts = append(c.VolumeMounts, m.volumeMount(fmt.Sprintf("/m%d", j), Pick(m, s.Volumes...)))
		}
	}
}

func (m *Generator) mountable(name string) corev1.Volume {
	v := corev1.Volume{Name: name}
	switch m.r.IntN(7) {
	case 0:
		v.ConfigMap = &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "a"}}
	case 1:
		v.Secret = &corev1.SecretVolumeSource{SecretName: "a"}
	case 2:
		v.DownwardAPI = &corev1.DownwardAPIVolumeSource{}
	case 3:
		v.Projected = &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{
			ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "a"}}}}}
	case 4:
		v.Image = &corev1.ImageVolumeSource{
			Reference: Pick(m, GoodImages...), PullPolicy: Pick[corev1.PullPolicy](m, "", "IfNotPresent", "Never"),
		}
	case 5:
		v.HostPath = &corev1.HostPathVolumeSource{Path: Pick(m, "/srv/none", "/srv/./none/")}
	default:
		v.EmptyDir = &corev1.EmptyDirVolumeSource{}
	}
	return v
}

func (m *Generator) volumeMount(at string, v corev1.Volume) corev1.VolumeMount {
	out := corev1.VolumeMount{Name: v.Name, MountPath: Pick(m, at, at[1:], at+"/"), ReadOnly: m.Chance(40)}
	switch {
	case m.Chance(40):
		out.SubPath = Pick(m, "a", "a/b", "a//b/", "./a", ".", "..data", "a b", "$(A)")
	case m.Chance(50):
		out.SubPathExpr = Pick(m, "a", "$(A)", "x/$(POD)/$(A)", "$$(A)", "$(NONE)/$(EMPTY)/$(NONE)", "$(UP)", "x$(UP)",
			"$(ROOT)", "a$(ROOT)", "$(A", "$(A)/..data")
	}
	out.MountPropagation = maybe(m, 20, func() corev1.MountPropagationMode {
		return Pick(m, corev1.MountPropagationNone, corev1.MountPropagationHostToContainer)
	})
	private := out.MountPropagation == nil || *out.MountPropagation == corev1.MountPropagationNone
	if out.ReadOnly && private && m.Chance(50) {
		mode := Pick(m, corev1.RecursiveReadOnlyEnabled, corev1.RecursiveReadOnlyIfPossible,
			corev1.RecursiveReadOnlyDisabled)
		out.RecursiveReadOnly = &mode
	}
	return out
}
