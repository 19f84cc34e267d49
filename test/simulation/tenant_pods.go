package simulation

import (
	"fmt"
	"math/rand/v2"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// crashing begins the names of containers that end at once, with a message as long as a kubelet takes.
const crashing = "crash"

// messageBytes is as much as a container writes of a termination message: more than anybody takes.
const messageBytes = 6 << 10

func cpuOf(milli int64) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewMilliQuantity(milli, resource.DecimalSI),
	}}
}

// simplePod returns a pod with one container, as the API server stores it.
func simplePod(n podName, milli int64) *corev1.Pod {
	grace := int64(5)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: n.Namespace, Name: n.Name, Labels: map[string]string{"app": "a"}, Annotations: map[string]string{},
		},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyAlways, TerminationGracePeriodSeconds: &grace, DNSPolicy: corev1.DNSDefault,
			Containers: []corev1.Container{simpleContainer("main", milli)},
		},
	}
}

// simpleContainer returns a container as the API server stores it: with a path for its termination message.
func simpleContainer(name string, milli int64) corev1.Container {
	return corev1.Container{
		Name: name, Image: "app:1", ImagePullPolicy: corev1.PullIfNotPresent, Resources: cpuOf(milli),
		TerminationMessagePath:   corev1.TerminationMessagePathDefault,
		TerminationMessagePolicy: corev1.TerminationMessageReadFile,
	}
}

// text returns a text that does not repeat itself.
func text(r *rand.Rand, bytes int) string {
	var b strings.Builder
	for b.Len() < bytes {
		fmt.Fprintf(&b, "<%x>", r.Uint64())
	}
	return b.String()[:bytes]
}

// tenantShapes are the pods of the tenant. beyond reports what the node cannot take: it rejects such a pod.
var tenantShapes = []func(r *rand.Rand, p *corev1.Pod) (beyond bool){
	func(*rand.Rand, *corev1.Pod) bool { return false },
	largeArguments, largeArguments, longReference, longReference, notUTF8, manyVolumes, manyVariables, manyPorts,
	longNames, manyCrashes, oneCrash, missingObjects, changingObjects, changingObjects, longLabels, neverEnds,
	manyReferences,
	func(_ *rand.Rand, p *corev1.Pod) bool { // what no node of this version supports
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "disk", VolumeSource: corev1.VolumeSource{
			ISCSI: &corev1.ISCSIVolumeSource{TargetPortal: "iscsi.example.com", IQN: "iqn.2026-11.com.example:disk"}}})
		return true
	},
}

// largeArguments are more than is kept in memory, in a pod that has quantities, too.
func largeArguments(r *rand.Rand, p *corev1.Pod) bool {
	c := &p.Spec.Containers[0]
	c.Args = []string{text(r, pick(r, 20_000, 60_000, 60_000, 300_000, 300_000, 1_300_000))}
	c.Env = []corev1.EnvVar{{Name: "CPU", ValueFrom: &corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{
		ContainerName: c.Name, Resource: "requests.cpu", Divisor: resource.MustParse("1m"),
	}}}}
	limit := resource.MustParse("1Gi")
	p.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &limit},
	}}}
	return false
}

// longReference has a name that the API server does not validate, and requests most of what the tenant may have.
func longReference(r *rand.Rand, p *corev1.Pod) bool {
	p.Spec.Containers[0].Resources = cpuOf(tenantCPU * 3 / 4)
	p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{
		Secret: &corev1.SecretVolumeSource{SecretName: strings.Repeat("s", pick(r, 254, 300_000, 1_100_000))},
	}}}
	return true
}

func notUTF8(r *rand.Rand, p *corev1.Pod) bool {
	switch bad := "a\xff\xfe"; r.IntN(3) {
	case 0:
		p.Spec.Containers[0].Args = []string{bad}
	case 1:
		p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: bad, Value: "v"}}
	default:
		p.Annotations["note"] = bad
	}
	return true
}

func manyVolumes(r *rand.Rand, p *corev1.Pod) bool {
	n := pick(r, 60, 300, 1001, 3000)
	for i := range n {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{
			Name: fmt.Sprint("v", i), VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}},
		})
	}
	return n > 1000
}

func manyVariables(r *rand.Rand, p *corev1.Pod) bool {
	for i := range 3000 {
		p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, corev1.EnvVar{
			Name: fmt.Sprint("E", i), Value: fmt.Sprintf("%x", r.Uint64()),
		})
	}
	return false
}

func manyPorts(r *rand.Rand, p *corev1.Pod) bool {
	n := pick(r, 500, 2000, 10_001)
	for i := range n {
		p.Spec.Containers[0].Ports = append(p.Spec.Containers[0].Ports, corev1.ContainerPort{
			ContainerPort: int32(20_000 + i), HostPort: int32(20_000 + i), Protocol: corev1.ProtocolTCP,
		})
	}
	return n > 10_000
}

// longNames are names of the greatest length.
func longNames(_ *rand.Rand, p *corev1.Pod) bool {
	long := func(n int, c string) string { return strings.Repeat(c, n) }
	p.Name = (p.Name + "." + long(63, "n") + "." + long(63, "n") + "." + long(63, "n") + "." + long(63, "n"))[:253]
	p.Spec.Containers[0].Name = long(63, "c")
	p.Spec.Containers[0].Image = "registry.example.com/" + long(900, "i") + ":" + long(100, "t")
	p.Spec.Volumes = []corev1.Volume{{Name: long(63, "v"), VolumeSource: corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{},
	}}}
	return false
}

// manyCrashes has as many containers as a node takes, or more. All of them crash with a long message.
func manyCrashes(r *rand.Rand, p *corev1.Pod) bool {
	n := pick(r, 40, 80, 80, 81)
	p.Spec.Containers = nil
	for i := range n {
		p.Spec.Containers = append(p.Spec.Containers, simpleContainer(fmt.Sprint(crashing, i), 0))
	}
	return n > 80
}

func oneCrash(_ *rand.Rand, p *corev1.Pod) bool {
	p.Spec.Containers[0].Name = crashing
	return false
}

func configMap(name string) corev1.Volume {
	return corev1.Volume{Name: strings.ReplaceAll(name, ".", "-"), VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}},
	}}
}

func missingObjects(r *rand.Rand, p *corev1.Pod) bool {
	for i := range pick(r, 1, 100) {
		p.Spec.Volumes = append(p.Spec.Volumes, configMap(fmt.Sprint("never", i)))
	}
	return false
}

func changingObjects(_ *rand.Rand, p *corev1.Pod) bool {
	p.Spec.Volumes = append(p.Spec.Volumes, configMap("conf0"), configMap("conf1"))
	return false
}

func manyReferences(r *rand.Rand, p *corev1.Pod) bool {
	n := pick(r, 999, 1001)
	for i := range n {
		name := fmt.Sprintf("%04d.%s", i, strings.Repeat("s", 248))
		p.Spec.ImagePullSecrets = append(p.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: name})
	}
	return n > 1000
}

func longLabels(r *rand.Rand, p *corev1.Pod) bool {
	n := pick(r, 1000, 2400)
	for i := range n {
		p.Labels[fmt.Sprintf("example.com/%050d", i)] = strings.Repeat("l", 63)
	}
	return n > 2000
}

// neverEnds ignores SIGTERM, and has a grace period of many years.
func neverEnds(_ *rand.Rand, p *corev1.Pod) bool {
	grace := int64(1) << 40
	p.Spec.TerminationGracePeriodSeconds = &grace
	p.Spec.Containers[0].Name = stubborn
	return false
}

// stubborn is the name of a container that ignores SIGTERM.
const stubborn = "stubborn"

// tenantDoes is what a program does on a node with a hostile tenant: the programs of others keep running.
func tenantDoes(w *world, c *container, b behaviour) behaviour {
	b.heal(c)
	switch {
	case c.manifest.Namespace != tenantNamespace, w.calm:
	case strings.HasPrefix(c.name, crashing):
		b.runs, b.code, b.reason = 200_000_000, 1, "Error"
		b.message = strings.Repeat("m\u00e4", messageBytes/3)
	case c.name == stubborn:
		b.ignoresTerm = true
	}
	return b
}
