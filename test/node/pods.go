package node

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

const (
	// Image is the lab's image.
	Image = "docker.io/library/busybox:1.36"
	// Idle is a script that exits with 0 at once on SIGTERM.
	Idle = "trap 'exit 0' TERM; sleep 100000 & wait"
)

// Pod returns a pod of one container "main" that runs a script, with a grace period of 2 s.
func Pod(name, image, script string, change ...func(*corev1.Pod)) *corev1.Pod {
	grace := int64(2)
	p := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: &grace,
			Containers:                    []corev1.Container{Shell("main", image, script)},
		},
	}
	for _, f := range change {
		f(p)
	}
	return p
}

// Shell returns a container that runs a script.
func Shell(name, image, script string) corev1.Container {
	return corev1.Container{
		Name: name, Image: image, ImagePullPolicy: corev1.PullIfNotPresent, Command: []string{"sh", "-c", script},
	}
}

// Scratch mounts an emptyDir at /v in each container of the pod. It outlives restarts of the containers.
func Scratch(p *corev1.Pod) {
	emptyDir := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: emptyDir}}
	for i := range p.Spec.Containers {
		p.Spec.Containers[i].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
	}
}

// Restarts returns a change that sets the pod's restart policy.
func Restarts(policy corev1.RestartPolicy) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.RestartPolicy = policy }
}

// Manifest returns a pod as YAML.
func Manifest(p *corev1.Pod) string {
	b, err := yaml.Marshal(p)
	if err != nil {
		panic(err) // a typed pod
	}
	return string(b)
}

// Container returns the status of a pod's container or init container: an empty one if the pod, or it, does not exist.
func Container(p *corev1.Pod, name string) corev1.ContainerStatus {
	if p == nil {
		return corev1.ContainerStatus{}
	}
	for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if c.Name == name {
			return c
		}
	}
	return corev1.ContainerStatus{}
}

// Condition returns the status of a pod's condition, "" without such a condition.
func Condition(p *corev1.Pod, kind corev1.PodConditionType) corev1.ConditionStatus {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return ""
}

// Ready reports whether the pod is running and ready. A nil pod is not.
func Ready(p *corev1.Pod) bool {
	return p != nil && p.Status.Phase == corev1.PodRunning && Condition(p, corev1.PodReady) == corev1.ConditionTrue
}
