package corpus

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Host maps a pod's host paths to other paths, so that no pod sees the machine that measures it.
type Host interface {
	// Path returns a path of this type on the machine, which exists if the type needs it.
	Path(kind corev1.HostPathType) string
}

// Runnable returns a pod that runs on any node in the place of p: its volumes, mounts, variables, users and groups are
// the same as in p. An image that sleeps replaces its images, and with them what depends on an image (probes, hooks,
// commands), on the size of the node (resources, ports, priority) and on its kind (selectors, runtime class).
func Runnable(p *corev1.Pod, name, image string, host Host) *corev1.Pod {
	p = p.DeepCopy()
	p.Name, p.UID, p.ResourceVersion = name, "", ""
	for key := range p.Annotations {
		if strings.HasPrefix(key, "kubernetes.io/config.") {
			delete(p.Annotations, key)
		}
	}
	s := &p.Spec
	grace := int64(1)
	s.TerminationGracePeriodSeconds, s.ActiveDeadlineSeconds = &grace, nil
	s.NodeName, s.NodeSelector, s.RuntimeClassName, s.Overhead = "", nil, nil, nil
	s.Priority, s.PriorityClassName, s.PreemptionPolicy = nil, "", nil
	s.Resources, s.ReadinessGates = nil, nil
	if s.Affinity != nil {
		s.Affinity.NodeAffinity = nil
	}
	for i := range s.Volumes {
		replaceVolume(&s.Volumes[i], image, host)
	}
	for i := range s.InitContainers {
		c := &s.InitContainers[i]
		sleeps := c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
		replaceContainer(s, c, image, sleeps)
	}
	for i := range s.Containers {
		replaceContainer(s, &s.Containers[i], image, true)
	}
	return p
}

func replaceVolume(v *corev1.Volume, image string, host Host) {
	if v.HostPath != nil {
		kind := corev1.HostPathUnset
		if v.HostPath.Type != nil {
			kind = *v.HostPath.Type
		}
		v.HostPath.Path = host.Path(kind)
	}
	if v.Image != nil {
		v.Image.Reference, v.Image.PullPolicy = image, corev1.PullIfNotPresent
	}
	if v.EmptyDir != nil && strings.HasPrefix(string(v.EmptyDir.Medium), "HugePages") {
		v.EmptyDir.Medium = corev1.StorageMediumMemory
	}
}

// unprivileged is a user for a container that must not run as root: the image's user is root.
const unprivileged int64 = 1000

func replaceContainer(s *corev1.PodSpec, c *corev1.Container, image string, sleeps bool) {
	c.Image, c.ImagePullPolicy = image, corev1.PullIfNotPresent
	c.Command, c.Args, c.WorkingDir = []string{"true"}, nil, ""
	if sleeps {
		c.Command = []string{"sh", "-c", "trap 'exit 0' TERM; sleep 100000 & wait"}
	}
	c.Lifecycle, c.LivenessProbe, c.ReadinessProbe, c.StartupProbe = nil, nil, nil, nil
	c.Ports, c.Resources, c.ResizePolicy = nil, corev1.ResourceRequirements{}, nil
	if nonRoot(s, c) {
		if c.SecurityContext == nil {
			c.SecurityContext = &corev1.SecurityContext{}
		}
		user := unprivileged
		c.SecurityContext.RunAsUser = &user
	}
}

// nonRoot reports whether a container must not run as root and leaves its user to the image.
func nonRoot(s *corev1.PodSpec, c *corev1.Container) bool {
	must, named := false, false
	if p := s.SecurityContext; p != nil {
		must, named = p.RunAsNonRoot != nil && *p.RunAsNonRoot, p.RunAsUser != nil
	}
	if own := c.SecurityContext; own != nil {
		if own.RunAsNonRoot != nil {
			must = *own.RunAsNonRoot
		}
		named = named || own.RunAsUser != nil
	}
	return must && !named
}

// Objects are the ConfigMaps and Secrets that pods refer to, with contents of a test, by "Kind namespace/name".
type Objects map[string]*corev1.ConfigMap

// spareKey is a key that no pod refers to.
const spareKey = "spare"

// Add adds what a pod refers to.
func (o Objects) Add(p *corev1.Pod) {
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		switch {
		case v.ConfigMap != nil:
			o.items(p, "ConfigMap", v.ConfigMap.Name, v.ConfigMap.Items)
		case v.Secret != nil:
			o.items(p, "Secret", v.Secret.SecretName, v.Secret.Items)
		case v.Projected != nil:
			for _, s := range v.Projected.Sources {
				if s.ConfigMap != nil {
					o.items(p, "ConfigMap", s.ConfigMap.Name, s.ConfigMap.Items)
				}
				if s.Secret != nil {
					o.items(p, "Secret", s.Secret.Name, s.Secret.Items)
				}
			}
		}
	}
	for _, list := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			o.container(p, &list[i])
		}
	}
}

func (o Objects) container(p *corev1.Pod, c *corev1.Container) {
	for _, f := range c.EnvFrom {
		if f.ConfigMapRef != nil {
			o.add(p, "ConfigMap", f.ConfigMapRef.Name, spareKey)
		}
		if f.SecretRef != nil {
			o.add(p, "Secret", f.SecretRef.Name, spareKey)
		}
	}
	for _, e := range c.Env {
		if e.ValueFrom == nil {
			continue
		}
		if r := e.ValueFrom.ConfigMapKeyRef; r != nil {
			o.add(p, "ConfigMap", r.Name, r.Key)
		}
		if r := e.ValueFrom.SecretKeyRef; r != nil {
			o.add(p, "Secret", r.Name, r.Key)
		}
	}
	for _, m := range c.VolumeMounts {
		o.subPath(p, &m)
	}
}

// subPath adds the file that a mount takes from a volume of a ConfigMap or a Secret.
func (o Objects) subPath(p *corev1.Pod, m *corev1.VolumeMount) {
	if m.SubPath == "" || strings.Contains(m.SubPath, "/") {
		return
	}
	for i := range p.Spec.Volumes {
		v := &p.Spec.Volumes[i]
		switch {
		case v.Name != m.Name:
		case v.ConfigMap != nil && len(v.ConfigMap.Items) == 0:
			o.add(p, "ConfigMap", v.ConfigMap.Name, m.SubPath)
		case v.Secret != nil && len(v.Secret.Items) == 0:
			o.add(p, "Secret", v.Secret.SecretName, m.SubPath)
		}
	}
}

func (o Objects) items(p *corev1.Pod, kind, name string, items []corev1.KeyToPath) {
	o.add(p, kind, name, spareKey)
	for _, item := range items {
		o.add(p, kind, name, item.Key)
	}
}

func (o Objects) add(p *corev1.Pod, kind, name, key string) {
	id := kind + " " + p.Namespace + "/" + name
	if o[id] == nil {
		m := &corev1.ConfigMap{Data: map[string]string{}}
		m.APIVersion, m.Kind, m.Namespace, m.Name = "v1", kind, p.Namespace, name
		o[id] = m
	}
	o[id].Data[key] = "value"
}

// Manifest returns all objects as a file for a node.
func (o Objects) Manifest() string {
	var out strings.Builder
	for _, id := range sortedKeys(o) {
		m := o[id]
		data := map[string]any{"apiVersion": "v1", "kind": m.Kind,
			"metadata": map[string]string{"name": m.Name, "namespace": m.Namespace}}
		if m.Kind == "Secret" {
			data["stringData"] = m.Data
		} else {
			data["data"] = m.Data
		}
		fmt.Fprintf(&out, "---\n%s", toYAML(data))
	}
	return out.String()
}
