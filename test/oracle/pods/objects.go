package pods

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AddObjects adds volumes and variables of ConfigMaps, Secrets and the pod itself to a pod, and mounts them.
func (m *Generator) AddObjects(p *corev1.Pod) {
	s := &p.Spec
	first := len(s.Volumes)
	for i := range m.r.IntN(3) {
		v := corev1.Volume{Name: value(m, []string{fmt.Sprintf("o%d", i)}, []string{"", "O"})}
		m.source(&v.VolumeSource)
		s.Volumes = append(s.Volumes, v)
	}
	if m.Chance(30) {
		s.ServiceAccountName = value(m, []string{"with-token"}, []string{"UPPER", "robot"})
		s.AutomountServiceAccountToken = new(bool)
	}
	for i := range s.Containers {
		c := &s.Containers[i]
		c.EnvFrom = some(m, 30, 2, func(int) corev1.EnvFromSource { return m.envFromObject() })
		c.Env = append(c.Env, some(m, 40, 2, func(int) corev1.EnvVar { return m.envOfObject(s) })...)
		for j := first; j < len(s.Volumes); j++ {
			if m.Chance(70) {
				mount := m.mount(j, s)
				mount.Name, mount.MountPath = s.Volumes[j].Name, fmt.Sprintf("/o%d", j)
				m.partOf(&mount)
				c.VolumeMounts = append(c.VolumeMounts, mount)
			}
		}
	}
}

func (m *Generator) source(v *corev1.VolumeSource) {
	if m.r.IntN(1000) < m.Bad/2 {
		v.ConfigMap, v.Secret = &corev1.ConfigMapVolumeSource{}, &corev1.SecretVolumeSource{SecretName: "s"}
		return
	}
	switch m.r.IntN(5) {
	case 0:
		v.ConfigMap = &corev1.ConfigMapVolumeSource{LocalObjectReference: m.reference(), Items: m.items(),
			DefaultMode: m.fileMode(), Optional: m.flag()}
	case 1:
		v.Secret = &corev1.SecretVolumeSource{SecretName: m.reference().Name, Items: m.items(), DefaultMode: m.fileMode(),
			Optional: m.flag()}
	case 2:
		v.DownwardAPI = &corev1.DownwardAPIVolumeSource{Items: m.downward(), DefaultMode: m.fileMode()}
	case 3:
		v.Projected = &corev1.ProjectedVolumeSource{DefaultMode: m.fileMode(),
			Sources: some(m, 95, 3, func(i int) corev1.VolumeProjection { return m.projection(i) })}
	default:
		v.Image = &corev1.ImageVolumeSource{Reference: value(m, GoodImages, []string{"", "Upper/Case"}),
			PullPolicy: value(m, []corev1.PullPolicy{"", "Always", "Never"}, []corev1.PullPolicy{"Once"})}
	}
}

// reference returns the name of an object. For a volume, both sides take any name that is not empty.
func (m *Generator) reference() corev1.LocalObjectReference {
	return corev1.LocalObjectReference{Name: value(m, []string{"conf", "a.b-c"}, []string{""})}
}

func (m *Generator) fileMode() *int32 {
	return maybe(m, 30, func() int32 { return value(m, []int32{0, 0o400, 0o777}, []int32{-1, 0o1000}) })
}

func (m *Generator) filePath(i int) string {
	return value(m, []string{fmt.Sprintf("f%d", i), fmt.Sprintf("d/f%d", i), fmt.Sprintf("a..%d", i)},
		[]string{"", "/abs", "../up", "a/../b", "..data", "..", "f0"})
}

func (m *Generator) items() []corev1.KeyToPath {
	return some(m, 40, 2, func(i int) corev1.KeyToPath {
		return corev1.KeyToPath{Key: value(m, []string{"k", "a b"}, []string{""}), Path: m.filePath(i), Mode: m.fileMode()}
	})
}

func (m *Generator) downward() []corev1.DownwardAPIVolumeFile {
	return some(m, 90, 3, func(i int) corev1.DownwardAPIVolumeFile {
		f := corev1.DownwardAPIVolumeFile{Path: m.filePath(10 + i), Mode: m.fileMode()}
		bad := m.r.IntN(1000) < m.Bad
		if ofField := m.Chance(60); ofField || bad {
			f.FieldRef = &corev1.ObjectFieldSelector{APIVersion: Pick(m, "", "v1"), FieldPath: value(m,
				[]string{"metadata.name", "metadata.labels", "metadata.annotations", "metadata.uid", "metadata.namespace",
					"metadata.labels['app']", "metadata.annotations['Note']"},
				[]string{"", "status.podIP", "spec.nodeName", "spec.host", "metadata.labels['a b']"})}
		}
		if f.FieldRef == nil || bad {
			f.ResourceFieldRef = &corev1.ResourceFieldSelector{ContainerName: value(m, []string{"c0"}, []string{""}),
				Resource: value(m, []string{"limits.cpu", "requests.memory", "limits.hugepages-2Mi"}, []string{"", "cpu"})}
			if m.Chance(30) {
				f.ResourceFieldRef.Divisor = resource.MustParse(value(m, []string{"1"}, []string{"3"}))
			}
		}
		if m.r.IntN(1000) < m.Bad/2 {
			f.FieldRef, f.ResourceFieldRef = nil, nil
		}
		return f
	})
}

func (m *Generator) projection(i int) corev1.VolumeProjection {
	v := corev1.VolumeProjection{}
	all := func(n int) bool { return m.r.IntN(1000) < m.Bad/4 && n > 0 }
	n := m.r.IntN(4)
	items := m.items()
	for j := range items {
		if items[j].Path != "" && m.r.IntN(1000) >= m.Bad {
			items[j].Path = fmt.Sprintf("p%d/%d", i, j)
		}
	}
	if n == 0 || all(n) {
		v.ConfigMap = &corev1.ConfigMapProjection{LocalObjectReference: m.reference(), Items: items, Optional: m.flag()}
	}
	if n == 1 || all(n) {
		v.Secret = &corev1.SecretProjection{LocalObjectReference: m.reference(), Items: items, Optional: m.flag()}
	}
	if n == 2 {
		v.DownwardAPI = &corev1.DownwardAPIProjection{Items: m.downward()}
		for j := range v.DownwardAPI.Items {
			if m.r.IntN(1000) >= m.Bad {
				v.DownwardAPI.Items[j].Path = fmt.Sprintf("p%d/%d", i, j)
			}
		}
	}
	if n == 3 {
		v.ClusterTrustBundle = m.bundle(i)
	}
	return v
}

func (m *Generator) bundle(i int) *corev1.ClusterTrustBundleProjection {
	b := &corev1.ClusterTrustBundleProjection{
		Path: value(m, []string{fmt.Sprintf("b%d.pem", i)}, []string{"", "/abs", "..x"})}
	if bad := m.r.IntN(1000) < m.Bad/2; m.Chance(50) || bad {
		name := value(m, []string{"roots", "example.com:signer:roots"}, []string{"", "UPPER", "a/b:c", "x:"})
		b.Name = &name
		if !bad {
			return b
		}
	}
	signer := value(m, []string{"example.com/signer", "a.b/c.d"},
		[]string{"", "nobody", "a.b/", "a.b/c/d", "Example.com/x", "com/x", long64 + ".com/x", long253 + "xx/y"})
	b.SignerName = &signer
	b.LabelSelector = maybe(m, 40, m.selector)
	return b
}

func (m *Generator) selector() metav1.LabelSelector {
	s := metav1.LabelSelector{}
	if m.Chance(60) {
		s.MatchLabels = map[string]string{
			value(m, []string{"app", "example.com/x"}, []string{"", "a b"}): value(m, []string{"", "web"}, []string{"a b"})}
	}
	s.MatchExpressions = some(m, 40, 2, func(int) metav1.LabelSelectorRequirement {
		q := metav1.LabelSelectorRequirement{Key: value(m, []string{"app", "zone"}, []string{"", "a b"}),
			Operator: value(m, []metav1.LabelSelectorOperator{"In", "Exists"}, []metav1.LabelSelectorOperator{"Equals"})}
		if (q.Operator == metav1.LabelSelectorOpIn) == (m.r.IntN(1000) >= m.Bad) {
			q.Values = []string{value(m, []string{"a"}, []string{"a b"})}
		}
		return q
	})
	return s
}

func (m *Generator) envFromObject() corev1.EnvFromSource {
	name := corev1.LocalObjectReference{Name: value(m, []string{"conf", "a.b"}, []string{"", "UPPER"})}
	e := corev1.EnvFromSource{Prefix: value(m, []string{"", "A_", "a-b", "1"}, []string{"A=", "ü"})}
	bad := m.r.IntN(1000) < m.Bad/2
	if m.Chance(50) != bad {
		e.ConfigMapRef = &corev1.ConfigMapEnvSource{LocalObjectReference: name, Optional: m.flag()}
	}
	if e.ConfigMapRef == nil != bad {
		e.SecretRef = &corev1.SecretEnvSource{LocalObjectReference: name, Optional: m.flag()}
	}
	return e
}

func (m *Generator) envOfObject(s *corev1.PodSpec) corev1.EnvVar {
	name := corev1.LocalObjectReference{Name: value(m, []string{"conf", "a.b"}, []string{"", "UPPER"})}
	key := value(m, []string{"k", "A.b_c-1"}, []string{"", "a b", "..", long253 + "x"})
	from := &corev1.EnvVarSource{}
	switch m.r.IntN(3) {
	case 0:
		from.ConfigMapKeyRef = &corev1.ConfigMapKeySelector{LocalObjectReference: name, Key: key, Optional: m.flag()}
	case 1:
		from.SecretKeyRef = &corev1.SecretKeySelector{LocalObjectReference: name, Key: key, Optional: m.flag()}
	default:
		f := &corev1.FileKeySelector{VolumeName: value(m, []string{""}, []string{"none", "", "a.b", "o0"}),
			Path: value(m, []string{"env", "d/env", "/abs"}, []string{"", "../x"}),
			Key:  value(m, []string{"K", "a.b"}, []string{"", "A="}), Optional: m.flag()}
		for i := range s.Volumes {
			if s.Volumes[i].EmptyDir != nil && f.VolumeName == "" {
				f.VolumeName = s.Volumes[i].Name
			}
		}
		if f.VolumeName == "" && m.r.IntN(1000) >= m.Bad {
			return corev1.EnvVar{Name: "F", Value: "x"}
		}
		from.FileKeyRef = f
	}
	return corev1.EnvVar{Name: "O", ValueFrom: from}
}

// partOf adds to a mount a part of its volume, or that the mounts below it are read-only, too.
func (m *Generator) partOf(v *corev1.VolumeMount) {
	paths := func() string { return value(m, []string{"a", "a/b", "..a", "."}, []string{"/a", "..", "a/../b"}) }
	bad := m.r.IntN(1000) < m.Bad
	if m.Chance(25) {
		v.SubPath = paths()
	}
	if (v.SubPath == "" || bad) && m.Chance(15) {
		v.SubPathExpr = value(m, []string{"$(A)", "x/$(A)"}, []string{"/$(A)", "../$(A)"})
	}
	v.RecursiveReadOnly = maybe(m, 20, func() corev1.RecursiveReadOnlyMode {
		return value(m, []corev1.RecursiveReadOnlyMode{"Disabled", "IfPossible", "Enabled"},
			[]corev1.RecursiveReadOnlyMode{"", "enabled"})
	})
	if v.RecursiveReadOnly != nil && !bad {
		v.ReadOnly, v.MountPropagation = true, nil
	}
}
