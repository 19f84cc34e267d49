package simulation

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Invariants of incarnations under one UID (ADR 024): a manifest is an update of the running pod, or another
// incarnation carries it out when nothing runs of the one before.

// isUpdate reports whether a manifest is an update of a running pod. The rule is written here a second time,
// independent of actors/pod.
func isUpdate(old, to *corev1.Pod) bool {
	return updatesLeadTo(old, to) && keepsPullPolicies(old, to)
}

// keepsPullPolicies reports whether each container with the same image has the same pull policy. Its default follows
// from the image's tag, so that it may change with the image. The manifests have the same containers.
func keepsPullPolicies(old, to *corev1.Pod) bool {
	was, is := containersOf(old), containersOf(to)
	for i := range was {
		if was[i].Image == is[i].Image && was[i].ImagePullPolicy != is[i].ImagePullPolicy {
			return false
		}
	}
	return true
}

// updatesLeadTo reports whether one or more updates of a pod can lead to a manifest. It compares the manifests as JSON,
// without the fields that updates may change. A pull policy that came with one image may stay with the next.
func updatesLeadTo(old, to *corev1.Pod) bool {
	if old == nil || to == nil || old.Name != to.Name || !sameSized(old, to) {
		return false
	}
	if was, is := old.Spec.ActiveDeadlineSeconds, to.Spec.ActiveDeadlineSeconds; was != nil && (is == nil || *is > *was) {
		return false
	}
	return reflect.DeepEqual(immutable(old), immutable(to))
}

// containersOf returns the init containers of a pod, and then its main containers.
func containersOf(m *corev1.Pod) []corev1.Container {
	return slices.Concat(m.Spec.InitContainers, m.Spec.Containers)
}

// immutable returns the fields of a spec that no update may change.
func immutable(m *corev1.Pod) map[string]any {
	b, err := json.Marshal(m.Spec)
	var spec map[string]any
	if err != nil || json.Unmarshal(b, &spec) != nil {
		return nil
	}
	delete(spec, "activeDeadlineSeconds")
	delete(spec, "resources")
	for _, list := range []string{"initContainers", "containers"} {
		all, _ := spec[list].([]any)
		for _, c := range all {
			c := c.(map[string]any)
			delete(c, "image")
			delete(c, "imagePullPolicy") // see keepsPullPolicies
			delete(c, "resources")
		}
	}
	return spec
}

// sameSized reports whether two pods, and their containers, have the same kinds of requests and limits, whatever their
// values, and the pods the same QoS class. New requests and limits may come.
func sameSized(old, to *corev1.Pod) bool {
	was, is := containersOf(old), containersOf(to)
	if len(was) != len(is) {
		return false
	}
	if res := old.Spec.Resources; res != nil && (to.Spec.Resources == nil || !keepsKinds(res, to.Spec.Resources)) {
		return false
	}
	for i := range was {
		if !keepsKinds(&was[i].Resources, &is[i].Resources) {
			return false
		}
		for name, q := range is[i].Resources.Limits { // devices do not change
			if strings.Contains(string(name), "/") && !q.Equal(was[i].Resources.Limits[name]) {
				return false
			}
		}
	}
	return qosOf(old) == qosOf(to)
}

// keepsKinds reports whether every request and limit is still there.
func keepsKinds(was, is *corev1.ResourceRequirements) bool {
	for _, lists := range [][2]corev1.ResourceList{{was.Requests, is.Requests}, {was.Limits, is.Limits}} {
		for name := range lists[0] {
			if _, ok := lists[1][name]; !ok {
				return false
			}
		}
	}
	return true
}

// qosOf returns the QoS class of a pod: by its resources as a whole if it has some, else by its containers'.
func qosOf(m *corev1.Pod) corev1.PodQOSClass {
	var all []corev1.ResourceRequirements
	if whole := m.Spec.Resources; whole != nil && len(whole.Requests)+len(whole.Limits) > 0 {
		all = append(all, *whole)
	} else {
		for _, c := range containersOf(m) {
			all = append(all, c.Resources)
		}
	}
	some, guaranteed := false, true
	for _, c := range all {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			request, limit := c.Requests[name], c.Limits[name]
			some = some || !request.IsZero() || !limit.IsZero()
			guaranteed = guaranteed && !limit.IsZero() && (request.IsZero() || request.Equal(limit))
		}
	}
	switch {
	case !some:
		return corev1.PodQOSBestEffort
	case guaranteed:
		return corev1.PodQOSGuaranteed
	}
	return corev1.PodQOSBurstable
}

// onlyIncarnation: nothing runs of an earlier incarnation when the node admits another one. An agent whose journal
// was lost takes over what it finds.
func (j *judge) onlyIncarnation(uid string) {
	if j.rebuilding {
		return
	}
	for _, c := range j.sim.world.objectsOf(uid).containers {
		if c.alive() && j.intents[c.intent] != nil {
			j.broken(oneIncarnation, uid, "another incarnation is admitted, and %s runs", c.id)
		}
	}
}

// createdAsAdmitted: a container is created from the manifest that its incarnation was admitted with, or from a
// manifest that updates of it lead to.
func (j *judge) createdAsAdmitted(c *container) {
	if m := j.history(c.uid).admittedAs; m != nil && !updatesLeadTo(m, c.manifest) && !j.lostIntents[c.intent] {
		j.broken(oneIncarnation, c.uid, "%s is created from a manifest that is no update of the admitted one", c.id)
	}
}
