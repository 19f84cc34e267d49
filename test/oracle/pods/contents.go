package pods

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/test/oracle/node"
)

// paths are the paths of files in volumes. Some are keys of objects.
var paths = []string{"A", "B", "dir//file", "./x", "a/b/c", "long." + long63}

// Contents adds volumes of objects to a pod, and returns these.
func (m *Generator) Contents(p *corev1.Pod) *node.Objects {
	s := &p.Spec
	s.SecurityContext = maybe(m, 50, func() corev1.PodSecurityContext {
		return corev1.PodSecurityContext{RunAsUser: m.user(), FSGroup: maybe(m, 30, func() int64 { return 2000 })}
	})
	for i := range s.Containers {
		s.Containers[i].SecurityContext = maybe(m, 30, func() corev1.SecurityContext {
			return corev1.SecurityContext{RunAsUser: m.user()}
		})
		m.resources(&s.Containers[i].Resources)
	}
	p.Labels, p.Annotations = m.labels(), m.annotations()
	for i := range 1 + m.N(3) {
		v := volumeFiles{m, map[string]bool{}}
		s.Volumes = append(s.Volumes, v.volume(i))
	}
	o := m.objects()
	o.Files = nil
	o.Binary = map[string]map[string][]byte{}
	for _, name := range maps[:len(maps)-1] {
		if m.Chance(30) {
			o.Binary[name] = map[string][]byte{"binary": {0, 1, 0xff}}
		}
	}
	return o
}

// volumeFiles generates one volume.
type volumeFiles struct {
	*Generator
	taken map[string]bool
}

// path returns a path that the volume does not have yet, in any spelling: the kubelet writes either.
func (m volumeFiles) path() string {
	path := Pick(m.Generator, paths...)
	for m.taken[path] {
		path += ".x"
	}
	m.taken[path] = true
	return path
}

func (m volumeFiles) volume(i int) corev1.Volume {
	v := corev1.Volume{Name: fmt.Sprintf("v%d", i)}
	mode := m.mode()
	switch m.N(6) {
	case 0:
		v.ConfigMap = &corev1.ConfigMapVolumeSource{DefaultMode: mode, Items: m.items(), Optional: m.mostly()}
		v.ConfigMap.Name = Pick(m.Generator, maps...)
	case 1:
		v.Secret = &corev1.SecretVolumeSource{
			SecretName: Pick(m.Generator, secrets...), DefaultMode: mode, Items: m.items(), Optional: m.mostly(),
		}
	case 2:
		v.DownwardAPI = &corev1.DownwardAPIVolumeSource{DefaultMode: mode, Items: some(m.Generator, 90, 4, m.downward)}
	default:
		v.Projected = &corev1.ProjectedVolumeSource{DefaultMode: mode, Sources: some(m.Generator, 95, 4, m.projection)}
	}
	return v
}

func (m *Generator) mode() *int32 {
	return maybe(m, 40, func() int32 { return Pick[int32](m, 0, 0o400, 0o644, 0o755, 0o777) })
}

func (m volumeFiles) items() []corev1.KeyToPath {
	return some(m.Generator, 40, 3, func(int) corev1.KeyToPath {
		return corev1.KeyToPath{Key: Pick(m.Generator, append(variables, "binary")...), Path: m.path(), Mode: m.mode()}
	})
}

func (m volumeFiles) downward(int) corev1.DownwardAPIVolumeFile {
	f := corev1.DownwardAPIVolumeFile{Path: m.path(), Mode: m.mode()}
	if m.Chance(60) {
		f.FieldRef = &corev1.ObjectFieldSelector{FieldPath: Pick(m.Generator, "metadata.name", "metadata.namespace",
			"metadata.uid",
			"metadata.labels", "metadata.annotations", "metadata.labels['app']", "metadata.annotations['note']")}
		return f
	}
	f.ResourceFieldRef = m.resourceRef()
	if f.ResourceFieldRef.ContainerName == "" {
		f.ResourceFieldRef.ContainerName = "c0"
	}
	return f
}

func (m volumeFiles) projection(i int) corev1.VolumeProjection {
	path := fmt.Sprintf("p%d", i)
	switch m.N(6) {
	case 0, 1:
		source := &corev1.ConfigMapProjection{Items: m.items(), Optional: m.mostly()}
		source.Name = Pick(m.Generator, maps...)
		return corev1.VolumeProjection{ConfigMap: source}
	case 2:
		source := &corev1.SecretProjection{Items: m.items(), Optional: m.mostly()}
		source.Name = Pick(m.Generator, secrets...)
		return corev1.VolumeProjection{Secret: source}
	case 3:
		source := &corev1.DownwardAPIProjection{Items: some(m.Generator, 90, 3, m.downward)}
		return corev1.VolumeProjection{DownwardAPI: source}
	case 4:
		return corev1.VolumeProjection{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{
			Audience: Pick(m.Generator, "", "vault"), Path: path,
			ExpirationSeconds: maybe(m.Generator, 50, func() int64 { return Pick[int64](m.Generator, 600, 3607) }),
		}}
	}
	source := &corev1.ClusterTrustBundleProjection{Path: path, Optional: m.mostly()}
	if name := Pick(m.Generator, "bundle", node.Missing); m.Chance(50) {
		source.Name = &name
	} else {
		name = "example.com/" + name
		source.SignerName = &name
	}
	return corev1.VolumeProjection{ClusterTrustBundle: source}
}
