package manifest

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// defaultGraceSeconds is the API server's default for terminationGracePeriodSeconds, in seconds.
const defaultGraceSeconds int64 = corev1.DefaultTerminationGracePeriodSeconds

// leastGraceSeconds replaces a negative period, as in the API server.
const leastGraceSeconds int64 = 1

// applyDefaults sets the API server's defaults of the supported fields, so that no other package needs them, and the
// hashed bytes contain them.
func applyDefaults(pod *corev1.Pod) {
	spec := &pod.Spec
	setDefault(&spec.RestartPolicy, corev1.RestartPolicyAlways)
	setDefault(&spec.DNSPolicy, corev1.DNSClusterFirst)
	setDefault(&spec.SchedulerName, corev1.DefaultSchedulerName)
	setDefaultPointer(&spec.TerminationGracePeriodSeconds, defaultGraceSeconds)
	if *spec.TerminationGracePeriodSeconds < 0 {
		*spec.TerminationGracePeriodSeconds = leastGraceSeconds
	}
	setDefaultPointer(&spec.EnableServiceLinks, corev1.DefaultEnableServiceLinks)
	setDefaultPointer(&spec.SecurityContext, corev1.PodSecurityContext{})
	setDefaultPointer(&spec.Priority, 0)
	for i := range spec.Volumes {
		defaultVolume(&spec.Volumes[i])
	}
	for i := range spec.InitContainers {
		defaultContainer(&spec.InitContainers[i], spec.HostNetwork)
	}
	for i := range spec.Containers {
		defaultContainer(&spec.Containers[i], spec.HostNetwork)
	}
	defaultPodResources(pod)
}

func defaultVolume(v *corev1.Volume) {
	if v.VolumeSource == (corev1.VolumeSource{}) {
		v.EmptyDir = &corev1.EmptyDirVolumeSource{}
	}
	if v.HostPath != nil {
		setDefaultPointer(&v.HostPath.Type, corev1.HostPathUnset)
	}
	defaultSources(&v.VolumeSource)
}

func defaultContainer(c *corev1.Container, hostNetwork bool) {
	setDefault(&c.ImagePullPolicy, pullPolicy(c.Image))
	setDefault(&c.TerminationMessagePath, corev1.TerminationMessagePathDefault)
	setDefault(&c.TerminationMessagePolicy, corev1.TerminationMessageReadFile)
	for i := range c.Ports {
		setDefault(&c.Ports[i].Protocol, corev1.ProtocolTCP)
		if hostNetwork {
			setDefault(&c.Ports[i].HostPort, c.Ports[i].ContainerPort)
		}
	}
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil {
			defaultFieldRef(from.FieldRef)
			if from.FileKeyRef != nil {
				setDefaultPointer(&from.FileKeyRef.Optional, false)
			}
		}
	}
	defaultResources(&c.Resources)
	for _, p := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
		defaultProbe(p)
	}
	defaultLifecycle(c.Lifecycle)
}

func defaultFieldRef(ref *corev1.ObjectFieldSelector) {
	if ref != nil {
		setDefault(&ref.APIVersion, "v1")
	}
}

// pullPolicy returns the policy of an image that names none.
func pullPolicy(image string) corev1.PullPolicy {
	if imageTag(image) == "latest" {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

// roundResources rounds to whole thousandths, the precision of the API server.
func roundResources(res *corev1.ResourceRequirements) {
	for _, list := range []corev1.ResourceList{res.Limits, res.Requests} {
		for name, quantity := range list {
			quantity.RoundUp(resource.Milli)
			list[name] = quantity
		}
	}
}

// defaultResources rounds, and sets missing requests to the limits.
func defaultResources(res *corev1.ResourceRequirements) {
	roundResources(res)
	for name, quantity := range res.Limits {
		if res.Requests == nil {
			res.Requests = corev1.ResourceList{}
		}
		if _, set := res.Requests[name]; !set {
			res.Requests[name] = quantity.DeepCopy()
		}
	}
}

// imageTag returns the tag that determines the pull policy: "latest" if the image has neither tag nor digest.
func imageTag(image string) string {
	name, _, digested := strings.Cut(image, "@")
	repository := name[strings.LastIndex(name, "/")+1:] // a colon before it belongs to the registry's port
	if _, tag, tagged := strings.Cut(repository, ":"); tagged {
		return tag
	}
	if digested {
		return ""
	}
	return "latest"
}

func setDefault[T comparable](value *T, to T) {
	var zero T
	if *value == zero {
		*value = to
	}
}

func setDefaultPointer[T any](value **T, to T) {
	if *value == nil {
		*value = &to
	}
}
