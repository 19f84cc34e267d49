package simulation

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/node"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// User namespaces (ADR 042): the exclusive ids of each pod with `hostUsers: false`. They are part of the plans in
// which containers have exclusive resources.

// idsUnit is the least number of ids that a pod has. KubeletConfiguration userNamespaces.idsPerPod: a multiple of it.
const idsUnit = 1 << 16

// drawUsers draws how many pods the node has ids for, which may be fewer than run there.
func (n *managed) drawUsers(r *rand.Rand) {
	n.users = &journaletv1.UserNamespaceRange{First: 2 * idsUnit, Pods: pick[uint32](r, 2, 4, 110), IdsPerPod: idsUnit}
}

// idsAt returns the ids of a run of the agent. With other settings each pod gets twice as many ids.
func (n *managed) idsAt(epoch uint64, seed uint64) *journaletv1.UserNamespaceRange {
	if n == nil {
		return nil
	}
	ids := proto.CloneOf(n.users)
	if chance(stream(seed, "ids of a run", strconv.FormatUint(epoch, 10)), 6) {
		ids.IdsPerPod *= 2
	}
	return ids
}

// withOwnUsers gives a third of the pods, by name, a user namespace each.
func withOwnUsers(body []byte) []byte {
	return edited(body, func(m map[string]any) {
		meta, _ := m["metadata"].(map[string]any)
		spec, _ := m["spec"].(map[string]any)
		if spec["hostNetwork"] == nil && chance(stream(0, "users of a pod", fmt.Sprint(meta["name"])), 3) {
			spec["hostUsers"] = false
		}
	})
}

// edited returns a manifest with changes.
func edited(body []byte, edit func(map[string]any)) []byte {
	var m map[string]any
	if json.Unmarshal(body, &m) != nil {
		return body
	}
	edit(m)
	out, err := json.Marshal(m)
	if err != nil {
		return body
	}
	return out
}

// ownUsers reports whether a pod is to have a user namespace of its own.
func ownUsers(m *corev1.Pod) bool { return m.Spec.HostUsers != nil && !*m.Spec.HostUsers }

// WriteUserNamespace keeps the ids of a pod in its directory.
func (d disk) WriteUserNamespace(uid string, ids *journaletv1.UserNamespace) error {
	if err := d.work(); err != nil {
		return err
	}
	d.run.world.files.users[uid] = proto.CloneOf(ids)
	d.run.judge.idsTaken(uid, ids)
	return nil
}

// foundUserNamespaces does what runtime/agent does at its start.
func (r *run) foundUserNamespaces() map[string]*journaletv1.UserNamespace {
	found := maps.Clone(r.world.files.users)
	known := r.cells.Decider(messages.Node).(*node.Actor)
	maps.DeleteFunc(found, func(uid string, _ *journaletv1.UserNamespace) bool { return known.HasUserNamespace(uid) })
	return found
}

// fillUsers has as many pods with user namespaces run on the idle node as it has ids for, at most a few.
func (s *sim) fillUsers() {
	ids := s.config.managed.idsAt(s.epoch, s.seed)
	count := int(min(ids.GetPods(), s.config.maxPods, 8))
	name := func(i int) string { return fmt.Sprintf("idle-users%d.json", i) }
	s.world.images["app:1"] = true
	for i := range count {
		s.directory.write(s.manifests, name(i), []byte(fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod",
			"metadata":{"name":"users%d"},"spec":{"hostUsers":false,"terminationGracePeriodSeconds":1,
			"containers":[{"name":"main","image":"app:1"}]}}`, i)))
	}
	s.play(s.clock.uptime+idleWithin, 0)
	if runs := len(s.world.running()); runs != count {
		s.judge.broken(idleNodeRuns, "", "%d of %d pods with user namespaces run after %s, and the node has ids for %d", runs,
			count, idleWithin, ids.GetPods())
	}
	for i := range count {
		s.directory.remove(name(i))
	}
	s.waitIdle(idleWithin)
}
