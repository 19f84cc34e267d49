package manifest

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/journalet/journalet/actors/containers"
	"github.com/journalet/journalet/runtime/cluster/features"
)

// FromAPI returns a pod of the API server as it is stored. The API server has validated and defaulted it. What changes
// without a change of the pod is left out: resourceVersion, managedFields, finalizers, the annotations of other
// sources, the status.
func FromAPI(from *corev1.Pod) (p Parsed, err error) {
	pod := &corev1.Pod{ObjectMeta: *from.ObjectMeta.DeepCopy(), Spec: *from.Spec.DeepCopy()}
	pod.Kind, pod.APIVersion = "Pod", "v1"
	pod.ResourceVersion, pod.ManagedFields, pod.Finalizers = "", nil, nil
	for _, annotation := range []string{ConfigSourceAnnotation, ConfigSeenAnnotation, ConfigMirrorAnnotation} {
		delete(pod.Annotations, annotation)
	}
	if len(pod.Annotations) == 0 {
		pod.Annotations = nil
	}
	p = Parsed{Pod: pod}
	p.Canonical, p.Digest, err = canonical(pod)
	return p, err
}

// CheckNames returns an error for a name in a pod that an API server would reject. The names of the pod, its containers
// and its volumes become parts of paths.
func CheckNames(pod *corev1.Pod) error {
	check := func(what, name string, valid func(string) []string) error {
		if why := valid(name); len(why) > 0 {
			return fmt.Errorf("%s %.64q: %s", what, name, why[0])
		}
		return nil
	}
	err := cmp.Or(check("name", pod.Name, validation.IsDNS1123Subdomain),
		check("namespace", pod.Namespace, validation.IsDNS1123Label))
	for c := range containers.All(pod) {
		err = cmp.Or(err, check("container", c.Name, validation.IsDNS1123Label))
	}
	for i := range pod.Spec.Volumes {
		err = cmp.Or(err, check("volume", pod.Spec.Volumes[i].Name, validation.IsDNS1123Label))
	}
	return err
}

// IsMirror reports whether a pod of the API server is the copy of a static pod.
func IsMirror(pod *corev1.Pod) bool {
	_, mirror := pod.Annotations[ConfigMirrorAnnotation]
	return mirror
}

// onlyAtAPI are fields of a pod's spec that are set by the API server and need nothing of the node.
var onlyAtAPI = []string{"spec.ephemeralContainers"}

// controlPlaneFields are the fields of a pod of the API server that its scheduler and controllers read, and no kubelet.
// Both are behind feature gates that are off by default in Kubernetes 1.37. In a manifest they are refused: there,
// nobody would read them.
var controlPlaneFields = []string{"spec.schedulingGroup", "spec.evictionResponders"}

// UnsupportedOfAPI returns what a pod of the API server needs of its node and this version does not carry out: a
// feature that the Node does not declare, or the path of the first such field; "" if it carries out everything. A light
// pod (Light) has the same answer. Fields that the types of this version do not have are not in the spec: as in the
// kubelet, what a newer API server knows and this node does not has no effect, unless it is a feature that the
// scheduler knows of.
func UnsupportedOfAPI(spec *corev1.PodSpec) string {
	if lacking := features.Lacking(spec); len(lacking) > 0 {
		return "the node feature " + strings.Join(lacking, ", ") + ", which the pod requires"
	}
	r := &report{root: new(node)}
	rest := *spec
	rest.EphemeralContainers = nil
	rest.Containers, rest.InitContainers = withoutDevices(spec.Containers), withoutDevices(spec.InitContainers)
	walkFields(r, reflect.ValueOf(rest), "spec", "spec")
	for i := range spec.EphemeralContainers {
		at := fmt.Sprintf("%s[%d]", onlyAtAPI[0], i)
		walkFields(r, reflect.ValueOf(corev1.Container(spec.EphemeralContainers[i].EphemeralContainerCommon)), at,
			"spec.containers[]")
	}
	var fields []string
	for _, p := range r.problems {
		if !slices.Contains(controlPlaneFields, p.Field) {
			fields = append(fields, p.Field)
		}
	}
	slices.SortFunc(fields, cmp.Compare[string])
	if len(fields) == 0 {
		return ""
	}
	return fields[0]
}

// withoutDevices returns containers without their block devices, which only claims have: in static pods they are
// refused.
func withoutDevices(all []corev1.Container) []corev1.Container {
	all = slices.Clone(all)
	for i := range all {
		all[i].VolumeDevices = nil
	}
	return all
}
