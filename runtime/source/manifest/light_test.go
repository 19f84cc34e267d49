package manifest

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/journalet/journalet/test/fullpod"
)

// heavy is a pod whose data is of that size, of one text each and of many; change may be nil.
func heavy(bytes int, change func(*corev1.Container)) *corev1.Pod {
	text := strings.Repeat("x", bytes)
	var many []string
	env := []corev1.EnvVar{{Name: "OF_A_SECRET", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{
		LocalObjectReference: corev1.LocalObjectReference{Name: "s"}, Key: "k"}}}}
	for i := range bytes / 4 {
		many = append(many, fmt.Sprintf("%04d", i%10_000))
		env = append(env, corev1.EnvVar{Name: fmt.Sprint("A", i), Value: "x"})
	}
	exec := corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"sh", text}}}
	c := corev1.Container{Name: "c", Image: "i", Command: []string{"a", text}, Args: many, Env: env,
		LivenessProbe: &corev1.Probe{ProbeHandler: exec}}
	if change != nil {
		change(&c)
	}
	p := &corev1.Pod{}
	p.Name, p.Spec.Containers, p.Spec.InitContainers = "p", []corev1.Container{c}, []corev1.Container{c}
	p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{
		EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "e", Args: many, Env: env},
	}}
	p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{
		Driver: "d", VolumeAttributes: map[string]string{"a": text}}}}, {
		Name: "w", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			Sources: []corev1.VolumeProjection{{PodCertificate: &corev1.PodCertificateProjection{
				SignerName: "s", UserAnnotations: map[string]string{"a": text}}}}}}}}
	return p
}

func TestLightPodHasWhatDecidersReadAndNoLargeData(t *testing.T) {
	whole := heavy(100_000, nil)
	light := Light(whole)
	if n := light.Spec.Size(); n > 3000 || whole.Spec.Size() < 1_000_000 {
		t.Errorf("%d bytes of %d are left", n, whole.Spec.Size())
	}
	c := light.Spec.Containers[0]
	if c.Name != "c" || c.Image != "i" || c.LivenessProbe.Exec == nil || len(c.Env) != 2 ||
		c.Env[0].ValueFrom.SecretKeyRef.Name != "s" || light.Spec.Volumes[0].CSI.Driver != "d" {
		t.Errorf("a container is %+v", c)
	}
	if small := heavy(100, nil); Light(small) != small {
		t.Error("a pod without large data is copied")
	}
}

// Whatever a pod has, it gets light: one panic here, and the agent reads no pod any more.
func TestPodWithEveryFieldGetsLight(t *testing.T) {
	p := &corev1.Pod{}
	p.Name = "p"
	fullpod.Fill(&p.Spec)
	if p.Spec.Volumes[0].EmptyDir.SizeLimit.IsZero() || p.Spec.Containers[0].LivenessProbe.Exec.Command[0] == "" {
		t.Fatal("a field is not filled")
	}
	if Light(p) != p {
		t.Error("a pod without large data is copied")
	}
	p.Spec.Containers[0].Args = []string{strings.Repeat("x", 100_000)}
	light := Light(p)
	if n := light.Spec.Size(); n > p.Spec.Size()-99_000 {
		t.Errorf("%d bytes of %d are left", n, p.Spec.Size())
	}
	if light.Spec.Volumes[0].EmptyDir.SizeLimit.Cmp(*p.Spec.Volumes[0].EmptyDir.SizeLimit) != 0 {
		t.Error("a quantity is another one")
	}
	if memory(p) < 100_000 {
		t.Errorf("it takes %d bytes", memory(p))
	}
	if _, err := FromAPI(p); err != nil {
		t.Error(err)
	}
	UnsupportedOfAPI(&p.Spec)
}

func TestAPodThatCannotGetLightStaysWhole(t *testing.T) {
	p := heavy(100_000, nil)
	if light := lightBy(p, func(reflect.Value) bool { panic("a defect") }); light != p {
		t.Errorf("it is %v", light)
	}
}

// An update is compared with what is kept.
func TestLightPodsAreEqualIfThePodsAre(t *testing.T) {
	same := Light(heavy(100_000, nil))
	if again := Light(heavy(100_000, nil)); !equality.Semantic.DeepEqual(same, again) {
		t.Errorf("%v and %v are one pod", same, again)
	}
	changes := map[string]func(*corev1.Container){
		"none of a text":   func(c *corev1.Container) { c.Command[1] += "y" },
		"a cut":            func(c *corev1.Container) { c.Args[1], c.Args[2] = "00010", "002" },
		"an argument":      func(c *corev1.Container) { c.Args[7] = "1234" },
		"a variable":       func(c *corev1.Container) { c.Env[9].Value = "y" },
		"a variable moved": func(c *corev1.Container) { c.Env[0], c.Env[1] = c.Env[1], c.Env[0] },
		"a probe": func(c *corev1.Container) {
			c.LivenessProbe = c.LivenessProbe.DeepCopy()
			c.LivenessProbe.Exec.Command[0] = "bash"
		},
	}
	for what, change := range changes {
		if equality.Semantic.DeepEqual(same, Light(heavy(100_000, change))) {
			t.Errorf("%s: the light pods are equal", what)
		}
	}
}
