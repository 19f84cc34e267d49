package simulation

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Invariants of volumes of CSI drivers. They are judged by the mount table, what the runtime was given, and manifests.
const (
	storageAttached  = "a volume of a driver is staged while it is attached, and not detached before it is unstaged"
	storageFirst     = "a volume is published after it was staged, and a container is created after both"
	storageKept      = "a volume is unpublished after the last container of its pod, and unstaged after its last pod"
	storageLeft      = "in the end no volume of a driver is mounted, or in use, that no pod has"
	storageTokens    = "a driver gets a valid token of the pod that a volume is published for"
	storageRefreshed = "a volume is published again and again if its driver requires that"
)

// storageMounted: a container is created with the volumes of drivers that it mounts, which are published.
func (j *judge) storageMounted(c *container) {
	if !j.sim.config.attached {
		return
	}
	for _, m := range c.spec.VolumeMounts {
		v := volumeIn(c.manifest, m.Name)
		if !ofDriver(v) {
			continue
		}
		if path := hostPathOf(c, m.MountPath); !j.sim.world.storage.published(path, c.uid, v) {
			j.broken(storageFirst, c.uid, "%s is created, and for volume %s %v is mounted at %q", c.id, v.Name,
				j.sim.world.storage.mounts[path], path)
		}
	}
}

// hostPathOf returns what a container has mounted at a path; empty for nothing.
func hostPathOf(c *container, path string) string {
	for _, m := range c.config.GetMounts() {
		if m.GetContainerPath() == path {
			return m.GetHostPath()
		}
	}
	return ""
}

// published reports whether a volume of a pod is published at a path.
func (n *storageNode) published(path, uid string, v *corev1.Volume) bool {
	m := n.mounts[path]
	return m != nil && m.uid == uid && (v.CSI != nil || m.handle == handleOf(v.PersistentVolumeClaim.ClaimName))
}

// storageUnpublished: no container runs that mounts a volume as a driver unpublishes it.
func (j *judge) storageUnpublished(path string) {
	for _, c := range j.sim.world.running() {
		if j.leaves(c) {
			continue
		}
		for _, m := range c.config.GetMounts() {
			if m.GetHostPath() == path {
				j.broken(storageKept, c.uid, "%s is unpublished, and %s runs", path, c.id)
			}
		}
	}
}

// tokenGiven: a driver that publishes a volume for a pod gets a token of that pod, which has not expired.
func (j *judge) tokenGiven(uid, text string) {
	var given map[string]struct{ Token string }
	if err := json.Unmarshal([]byte(text), &given); err != nil {
		j.broken(storageTokens, uid, "the driver gets no tokens: %v", err)
	}
	t, issued := j.sim.api.attacher.tokens[given[tokenAudience].Token]
	if age := j.sim.clock.uptime - t.issuedAt; !issued || t.uid != uid || age >= tokenLasts {
		j.broken(storageTokens, uid, "the driver gets a token of %q that was issued %s ago", t.uid, age)
	}
}

// storageDetached: nothing of a volume is mounted when it is detached.
func (j *judge) storageDetached(handle string) {
	n := j.sim.world.storage
	if all := slices.Concat(n.mountsOf(handle, true), n.mountsOf(handle, false)); len(all) > 0 {
		j.broken(storageAttached, "", "%s is detached, since the Node does not have it in use, and it is mounted at %v",
			handle, all)
	}
}

// refreshedWithin bounds the time between two publications of a volume, on a node without faults: a period, and what a
// driver takes.
const refreshedWithin = 3 * time.Minute

// judgeStorage reports volumes that stay mounted or in use, or are not mounted. desired are the pods that sources name.
func (s *sim) judgeStorage(desired map[string]string, say func(invariant, uid, format string, args ...any)) {
	if !s.config.attached {
		return
	}
	n, used := s.world.storage, map[string]bool{}
	for _, path := range slices.Sorted(maps.Keys(n.mounts)) {
		m := n.mounts[path]
		switch _, is := desired[m.uid]; {
		case m.uid == "":
			if len(n.mountsOf(m.handle, false)) == 0 {
				say(storageLeft, "", "%s is staged, and no pod has it", m.handle)
			}
		case !is || s.judge.terminalAtAPI(m.uid):
			say(storageLeft, m.uid, "%s is published at %s, and its pod has ended", m.handle, path)
		default:
			used[m.handle] = true
			if !strings.HasPrefix(m.handle, handleOf("data")) && s.clock.uptime-m.publishedAt > refreshedWithin {
				say(storageRefreshed, m.uid, "%s was published at %s %s ago", m.handle, path, s.clock.uptime-m.publishedAt)
			}
		}
	}
	if s.api.node == nil {
		return
	}
	for handle := range s.api.attacher.devices {
		if is := slices.Contains(s.api.node.Status.VolumesInUse, uniqueName(handle)); is != used[handle] {
			say(storageLeft, "", "that %s is in use is %v at the Node, and that a pod has it %v", handle, is, used[handle])
		}
	}
}
