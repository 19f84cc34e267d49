package simulation

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/resources"
	"github.com/journalet/journalet/messages/journaletv1"
)

// CPU and memory: what manifests have, and the invariants.

// resourcesOf draws a container's requests and limits.
func resourcesOf(r *rand.Rand) string {
	cpu, memory := 1+r.IntN(4000), 1+r.IntN(8000)
	requests := fmt.Sprintf(`{"cpu":"%dm","memory":"%dMi"}`, cpu, memory)
	limits := fmt.Sprintf(`{"cpu":"%dm","memory":"%dMi"}`, cpu+r.IntN(1000), memory+r.IntN(1000))
	return pick(r, `{"requests":`+requests+`}`, `{"requests":`+requests+`,"limits":`+limits+`}`,
		`{"limits":`+limits+`}`, `{"requests":{"cpu":"100m"}}`)
}

func resizePolicyOf(r *rand.Rand) string {
	return pick(r, `[{"resourceName":"cpu","restartPolicy":"NotRequired"}]`,
		`[{"resourceName":"cpu","restartPolicy":"NotRequired"},{"resourceName":"memory","restartPolicy":"NotRequired"}]`,
		`[{"resourceName":"cpu","restartPolicy":"NotRequired"},{"resourceName":"memory","restartPolicy":"RestartContainer"}]`)
}

// resizeSome changes nothing but CPU, memory and now and then images of a manifest: of a file, or of the URL.
func (s *sim) resizeSome(o Op) {
	r := stream(s.seed, "resize", fmt.Sprint(o.pick))
	files := s.directory.names()
	if n := len(files); n > 0 && (s.config.url == "" || !chance(r, 4)) {
		path := files[r.IntN(n)]
		now := s.directory.bodies[path]
		body := resized(r, now)
		if before := s.beforeResize[path]; bytes.Equal(before.to, now) && chance(r, 2) {
			body = before.from // back to what it was: a deferred resize is withdrawn
		}
		if body != nil {
			s.directory.write(s.manifests, path, body)
			s.beforeResize[path] = edit{now, body}
		}
		return
	}
	if body := resized(r, s.site.body); body != nil {
		s.serve(body)
	}
}

// edit is a resize of a file: its content before and after.
type edit struct{ from, to []byte }

// resized returns a manifest with other values of CPU and memory and other images, nil if nothing changed.
func resized(r *rand.Rand, body []byte) []byte {
	var m any
	if json.Unmarshal(body, &m) != nil {
		return nil
	}
	changed := false
	var change func(v any)
	change = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, x := range v {
				change(x)
			}
		case map[string]any:
			if res, ok := v["resources"].(map[string]any); ok && !chance(r, 4) {
				v["resources"] = otherResources(r, res)
				changed = true
			}
			if _, ok := v["image"]; ok && chance(r, 6) {
				v["image"], changed = pick(r, "app:1", "app:2", "app:3"), true
			}
			for _, key := range []string{"items", "spec", "initContainers", "containers"} {
				change(v[key])
			}
		}
	}
	change(m)
	if m, ok := m.(map[string]any); ok {
		if spec, ok := m["spec"].(map[string]any); ok {
			coverContainers(spec)
		}
	}
	out, err := json.Marshal(m)
	if err != nil || !changed {
		return nil
	}
	return out
}

// otherResources returns other values for the resources that exist. Requests stay below limits most of the time.
func otherResources(r *rand.Rand, res map[string]any) map[string]any {
	out := map[string]any{}
	cpu, memory := 1+r.IntN(6000), 1+r.IntN(8000)
	for _, part := range []string{"requests", "limits"} {
		old, ok := res[part].(map[string]any)
		if !ok || chance(r, 30) {
			continue
		}
		now := map[string]any{}
		for _, name := range []string{"cpu", "memory"} {
			if _, ok := old[name]; !ok {
				continue
			}
			if name == "cpu" {
				now[name] = fmt.Sprintf("%dm", cpu)
			} else {
				now[name] = fmt.Sprintf("%dMi", memory)
			}
		}
		out[part] = now
		cpu, memory = cpu+r.IntN(1000), memory+r.IntN(1000)
	}
	return out
}

// resourcesApplied: a running container's memory limit does not fall to what it uses, or below.
func (j *judge) resourcesApplied(c *container, to *journaletv1.Resources) {
	limit, had := to.GetMemoryLimitBytes(), c.has.GetMemoryLimitBytes()
	if c.alive() && limit != 0 && (had == 0 || limit < had) && limit <= c.does.uses {
		j.broken(aboveUse, c.uid, "%s uses %d, and its limit becomes %d", c.id, c.does.uses, limit)
	}
}

// sameInAll reports whether two manifests have the same CPU and memory, each as a whole and in its containers.
func sameInAll(a, b *corev1.Pod) bool {
	none := new(corev1.ResourceRequirements)
	if !sameResources(cmp.Or(a.Spec.Resources, none), cmp.Or(b.Spec.Resources, none)) {
		return false
	}
	for _, list := range [][]corev1.Container{a.Spec.InitContainers, a.Spec.Containers} {
		for i := range list {
			if c := findSpec(b, list[i].Name); c == nil || !sameResources(&list[i].Resources, &c.Resources) {
				return false
			}
		}
	}
	return true
}

// judgeResources: without faults a container has the resources that the node gave it last. Those are the ones of the
// manifest unless the status says why not.
func (s *sim) judgeResources(h *podHistory, desired *corev1.Pod, o *objects, v *corev1.Pod, say func(string, ...any)) {
	allocated := h.allocatedAs
	if allocated == nil {
		say("it runs, and was not admitted")
		return
	}
	s.judgeSize(allocated, o, say)
	var runs share
	for _, c := range o.containers {
		spec := findSpec(allocated, c.name)
		if spec == nil || !c.alive() {
			continue
		}
		has, want := c.has, resources.Of(ownOrPods(allocated, spec))
		if s.judge.intents[c.intent] == nil {
			// The record of what it was given is lost, and a runtime shows no memory request.
			has, want = shownResources(has), shownResources(want)
		}
		if !resources.Equal(has, want) {
			say("%s has %v, and %v is allocated to it", c.name, has, want)
		}
		if !c.once {
			runs = runs.plus(share{cpu: has.GetCpuRequestMillis(), memory: has.GetMemoryRequestBytes()})
		}
	}
	// A runtime shows a request of 2 for a container without a request.
	if has := h.share.plus(share{cpu: 2 * int64(len(o.containers))}); !runs.within(has) {
		say("its running containers request %+v, and the node gave it %+v", runs, h.share)
	}
	has := sameInAll(desired, allocated)
	i := slices.IndexFunc(v.Status.Conditions,
		func(c corev1.PodCondition) bool { return c.Type == corev1.PodResizePending })
	switch {
	case has && i < 0:
	case i < 0:
		say("it does not have the resources of its manifest, and no condition says why")
	case has:
		say("it has the resources of its manifest, and a condition says that it waits for them: %v", v.Status.Conditions[i])
	case v.Status.Conditions[i].Reason == corev1.PodReasonDeferred:
		if have, need := s.allocatable(), s.takenBesides(string(desired.UID)).plus(demandOf(desired)); need.within(have) {
			say("its resize is deferred, and would fit: %v of %v", need, have)
		}
	case s.config.managed.keepsSize(desired, allocated):
	default:
		say("it waits for resources for a reason that must not occur: %v", v.Status.Conditions[i])
	}
	if slices.ContainsFunc(v.Status.Conditions,
		func(c corev1.PodCondition) bool { return c.Type == corev1.PodResizeInProgress }) {
		say("its resize does not end")
	}
}
