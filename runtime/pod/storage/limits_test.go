package storage

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func quantity(text string) *resource.Quantity {
	q := resource.MustParse(text)
	return &q
}

func container(name, limit string) corev1.Container {
	c := corev1.Container{Name: name}
	if limit != "" {
		c.Resources.Limits = corev1.ResourceList{corev1.ResourceEphemeralStorage: *quantity(limit)}
	}
	return c
}

func emptyDir(name string, limit *resource.Quantity, medium corev1.StorageMedium) corev1.Volume {
	return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: limit, Medium: medium},
	}}
}

const mi = 1 << 20

// The rules and the messages are the same as in the kubelet's eviction manager.
func TestFirstLimitThatIsExceeded(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	sidecar := container("side", "2Mi")
	sidecar.RestartPolicy = &always
	for name, c := range map[string]struct {
		spec corev1.PodSpec
		used Sample
		want string
	}{
		"volume at its limit": {
			spec: corev1.PodSpec{Volumes: []corev1.Volume{emptyDir("a", quantity("10Mi"), "")}},
			used: Sample{Volumes: map[string]int64{"a": 10 * mi}},
		},
		"volume": {
			spec: corev1.PodSpec{Volumes: []corev1.Volume{emptyDir("a", quantity("10Mi"), "")}},
			used: Sample{Volumes: map[string]int64{"a": 10*mi + 1}},
			want: `Usage of EmptyDir volume "a" exceeds the limit "10Mi". `,
		},
		"volume in memory": {
			spec: corev1.PodSpec{Volumes: []corev1.Volume{emptyDir("m", quantity("1"), corev1.StorageMediumMemory)}},
			used: Sample{Volumes: map[string]int64{"m": 4096}},
			want: `Usage of EmptyDir volume "m" exceeds the limit "1". `,
		},
		"limit of 0 is none": {
			spec: corev1.PodSpec{Volumes: []corev1.Volume{emptyDir("a", quantity("0"), "")},
				Containers: []corev1.Container{container("main", "")}},
			used: Sample{Volumes: map[string]int64{"a": mi}, Layers: map[string]int64{"main": mi}},
		},
		"pod by all of it": {
			spec: corev1.PodSpec{Volumes: []corev1.Volume{emptyDir("a", nil, "")},
				Containers: []corev1.Container{container("main", "3Mi"), container("other", "1Mi")}},
			used: Sample{Volumes: map[string]int64{"a": mi}, Layers: map[string]int64{"main": mi, "other": mi},
				Logs: map[string]int64{"main": mi}, Other: 1},
			want: "Pod ephemeral local storage usage exceeds the total limit of containers 4Mi. ",
		},
		"volumes in memory do not count for the pod": {
			spec: corev1.PodSpec{Volumes: []corev1.Volume{emptyDir("a", quantity("9Mi"), corev1.StorageMediumMemory)},
				Containers: []corev1.Container{container("main", "1Mi")}},
			used: Sample{Volumes: map[string]int64{"a": 9 * mi}},
		},
		"container": {
			spec: corev1.PodSpec{Containers: []corev1.Container{container("main", "1Mi"), container("other", "9Mi")}},
			used: Sample{Layers: map[string]int64{"main": mi}, Logs: map[string]int64{"main": 1}},
			want: `Container main exceeded its local ephemeral storage limit "1Mi". `,
		},
		"container with images elsewhere": {
			spec: corev1.PodSpec{Containers: []corev1.Container{container("main", "1Mi"), container("other", "9Mi")}},
			used: Sample{Layers: map[string]int64{"main": 2 * mi}, Logs: map[string]int64{"main": mi}, OwnImageFS: true},
		},
		"sidecar": {
			spec: corev1.PodSpec{InitContainers: []corev1.Container{sidecar, container("init", "1")},
				Containers: []corev1.Container{container("main", "9Mi")}},
			used: Sample{Layers: map[string]int64{"side": 3 * mi, "init": mi}},
			want: `Container side exceeded its local ephemeral storage limit "2Mi". `,
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := LimitsOf(&corev1.Pod{Spec: c.spec})
			if got := Exceeded("u", &l, &c.used).GetMessage(); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestOnlyPodsWithLimitsAreMeasured(t *testing.T) {
	configMap := corev1.Volume{Name: "c", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}}
	host := corev1.Volume{Name: "h", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}
	spec := corev1.PodSpec{Containers: []corev1.Container{container("main", "")},
		Volumes: []corev1.Volume{emptyDir("a", nil, ""), emptyDir("m", nil, corev1.StorageMediumMemory), configMap, host}}
	if l := LimitsOf(&corev1.Pod{Spec: spec}); !l.None() {
		t.Errorf("%+v", l)
	}
	spec.Containers[0] = container("main", "1Gi")
	l := LimitsOf(&corev1.Pod{Spec: spec})
	if len(l.Volumes) != 2 || l.Volumes[0].Name != "a" || l.Volumes[1].Name != "c" {
		t.Errorf("%+v, want what the kubelet counts as local: emptyDir on disk and ConfigMaps", l.Volumes)
	}
}
