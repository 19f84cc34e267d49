package simulation

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// reportVolumes does what runtime/agent does at its start: it reports volumes that the journal has and the node has
// not, and directories that neither the journal nor the runtime has.
func (r *run) reportVolumes() {
	n := r.world.files
	// A pod whose first volume is a driver's has a directory before its sandbox.
	there, known := r.world.storage.uids(), map[string]bool{}
	var left []messages.Ref
	for _, ref := range r.cells.Refs() {
		d, ok := r.cells.Decider(ref).(*pod.Actor)
		if !ok {
			continue
		}
		if known[ref.ID] = d.OnNode(); !known[ref.ID] {
			continue
		}
		var pending []*journaletv1.Record
		r.cells.Pending(ref, func(rec *journaletv1.Record) { pending = append(pending, rec) })
		if (len(n.disk[ref.ID]) > 0 || there[ref.ID]) && d.Gone(pending) {
			left = append(left, ref)
		}
		lost := &journaletv1.VolumesLost{Uid: ref.ID}
		for _, name := range d.VolumesSetUp(pending) {
			if r.hasLost(ref.ID, name) {
				lost.Names = append(lost.Names, name)
			}
		}
		if len(lost.GetNames()) > 0 {
			r.outcome(ref, messages.NewEvent(lost))
		}
	}
	for _, ref := range left {
		r.outcome(ref, messages.NewEvent(&journaletv1.PodDirectoryFound{Uid: ref.ID}))
	}
	for uid := range n.disk {
		there[uid] = true
	}
	unknown := slices.DeleteFunc(slices.Sorted(maps.Keys(there)), func(uid string) bool { return known[uid] })
	if r.world.responds() {
		r.reportDirectories(unknown)
		return
	}
	r.clock.start(r.scope, func(p *proc) {
		for !r.world.responds() {
			p.sleep(sandboxesPause)
		}
		r.reportDirectories(unknown)
	})
}

// hasLost reports whether a volume that was set up is not there.
func (r *run) hasLost(uid, name string) bool {
	if r.storage != nil && (name == inlineVolume || strings.HasPrefix(name, claimPrefix)) {
		return r.storage.Lost(uid, name)
	}
	return r.world.files.disk[uid][name] == ""
}

// sandboxesPause is the agent's pause between two attempts to list the sandboxes.
const sandboxesPause = 10 * time.Second

// reportDirectories reports the directories of pods that the runtime does not have either.
func (r *run) reportDirectories(uids []string) {
	for _, uid := range uids {
		if r.world.objectsOf(uid).empty() {
			r.outcome(messages.Pod(uid), messages.NewEvent(&journaletv1.PodDirectoryFound{Uid: uid}))
		}
	}
}
