package pods

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/test/oracle/node"
)

// Names that objects, their keys, files and variables share, so that references meet and variables replace each other.
var (
	variables = []string{"A", "B", "C", "a.b-c", "_x", "1A"}
	maps      = []string{"m0", "m1", "m2", "missing"}
	secrets   = []string{"s0", "s1", "missing"}
	files     = []string{"a.env", "dir/b.env", "link", "up", "absolute", "to-dir/b.env", "missing", "dir"}
)

// Env adds variables to the containers of a pod that refer to objects and files, and returns these.
func (m *Generator) Env(p *corev1.Pod) *node.Objects {
	p.Spec.EnableServiceLinks = m.flag()
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{
		Name: "files", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
	})
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		c.EnvFrom = some(m, 60, 4, m.envFrom)
		c.Env = some(m, 80, 6, func(int) corev1.EnvVar { return m.envOf(&p.Spec) })
		c.Command, c.Args = some(m, 30, 2, m.word), some(m, 30, 2, m.word)
	}
	return m.objects()
}

func (m *Generator) envFrom(int) corev1.EnvFromSource {
	f := corev1.EnvFromSource{Prefix: Pick(m, "", "", "A", "p.", "_")}
	if m.Chance(50) {
		f.ConfigMapRef = &corev1.ConfigMapEnvSource{Optional: m.mostly()}
		f.ConfigMapRef.Name = Pick(m, maps...)
		return f
	}
	f.SecretRef = &corev1.SecretEnvSource{Optional: m.mostly()}
	f.SecretRef.Name = Pick(m, secrets...)
	return f
}

// mostly returns a flag that is mostly true, since a missing object that is not optional ends the comparison of a
// container early.
func (m *Generator) mostly() *bool {
	return maybe(m, 85, func() bool { return m.Chance(90) })
}

func (m *Generator) envOf(s *corev1.PodSpec) corev1.EnvVar {
	e := corev1.EnvVar{Name: Pick(m, variables...), ValueFrom: &corev1.EnvVarSource{}}
	key := Pick(m, variables...)
	switch m.N(6) {
	case 0, 1:
		return m.env(s)
	case 2, 3:
		e.ValueFrom.ConfigMapKeyRef = &corev1.ConfigMapKeySelector{Key: key, Optional: m.mostly()}
		e.ValueFrom.ConfigMapKeyRef.Name = Pick(m, maps...)
	case 4:
		e.ValueFrom.SecretKeyRef = &corev1.SecretKeySelector{Key: key, Optional: m.mostly()}
		e.ValueFrom.SecretKeyRef.Name = Pick(m, secrets...)
	default:
		e.ValueFrom.FileKeyRef = &corev1.FileKeySelector{
			VolumeName: "files", Path: Pick(m, files...), Key: key, Optional: m.mostly(),
		}
	}
	return e
}

func (m *Generator) objects() *node.Objects {
	o := &node.Objects{
		ConfigMaps: map[string]map[string]string{}, Secrets: map[string]map[string][]byte{},
		Files: map[string]string{
			"a.env": m.envFile(), "dir/b.env": m.envFile(), "link": node.LinkTo + "dir/b.env",
			"up": node.LinkTo + "../../../a.env", "absolute": node.LinkTo + "/a.env", "to-dir": node.LinkTo + "/dir",
		},
	}
	for _, name := range maps[:len(maps)-1] {
		data := map[string]string{}
		for range m.N(4) {
			data[Pick(m, variables...)] = m.content()
		}
		o.ConfigMaps[name] = data
	}
	for _, name := range secrets[:len(secrets)-1] {
		data := map[string][]byte{}
		for range m.N(4) {
			data[Pick(m, variables...)] = []byte(m.content())
		}
		o.Secrets[name] = data
	}
	return o
}

func (m *Generator) content() string {
	return Pick(m, "", "1", "$(A)", "$$(B)", "two\nlines\n", " spaces ", "ü=\"'", "\xff\xfe",
		strings.Repeat("long ", 500))
}

// envFile returns a file of variables with a few mistakes.
func (m *Generator) envFile() string {
	var out strings.Builder
	for range m.N(6) {
		name, value := Pick(m, variables...), strings.ReplaceAll(Pick(m, "1", "", "$(A)", "x # y", "two\nlines", "a\r\nb"),
			"'", "")
		line := Pick(m, "%s='%s'\n", "%s='%s'\n", "  %s='%s'\n", "%s='%s' # comment\n", "%s='%s'\r\n", "\t%s='%s'\t\n")
		if m.Chance(8) {
			line = Pick(m, "%s = '%s'\n", "%s=%s\n", "%s= '%s'\n", "%s='%s'x\n", "%s '%s'\n", "%s='%s''\n", "%s=\"%s\"\n",
				"%s='%s\n", "='%s%s'\n")
		}
		out.WriteString(Pick(m, "", "", "# comment\n", "\n", " \t\n") + fmt.Sprintf(line, name, value))
	}
	return strings.TrimSuffix(out.String(), Pick(m, "", "\n"))
}
