package why

import (
	"bytes"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history"
)

// nameRecords bounds how far back a pod's name is looked for, in records. Without a name a pod is shown by its UID.
const nameRecords = 4096

// snapshots returns the newest set of snapshots at or before a record, by actor, and its barrier; nil and 0 for none.
func (x *explainer) snapshots(at uint64) (map[messages.Ref]*journaletv1.Snapshot, uint64) {
	if x.sets == nil {
		x.sets = map[uint64]map[messages.Ref]*journaletv1.Snapshot{}
	}
	barriers, err := x.j.r.Snapshots(x.j.ctx)
	if err != nil {
		return nil, 0
	}
	newest := uint64(0)
	for _, b := range barriers {
		if b <= at && b > newest {
			newest = b
		}
	}
	if set, ok := x.sets[newest]; ok || newest == 0 {
		return set, newest
	}
	all, err := x.j.r.Snapshot(x.j.ctx, newest)
	if err != nil {
		return nil, 0
	}
	set := make(map[messages.Ref]*journaletv1.Snapshot, len(all))
	for _, s := range all {
		set[messages.RefOf(s.GetActor())] = s
	}
	x.sets[newest] = set
	return set, newest
}

// podState returns the state of a pod in a snapshot, nil for none.
func podState(s *journaletv1.Snapshot) *journaletv1.PodState {
	st := &journaletv1.PodState{}
	if s == nil || proto.Unmarshal(s.GetState(), st) != nil {
		return nil
	}
	return st
}

// learnName has the describer know the name of the pod with a UID, as records up to near show it.
func (x *explainer) learnName(uid string, near uint64) {
	if x.named[uid] {
		return
	}
	x.named[uid] = true
	set, _ := x.snapshots(x.j.last)
	if ref := podState(set[messages.Pod(uid)]).GetPod(); ref.GetName() != "" {
		x.d.Name(uid, ref.GetNamespace(), ref.GetName())
		return
	}
	from := uint64(1)
	if near > nameRecords {
		from = near - nameRecords
	}
	needle := []byte(uid)
	_, _ = x.j.backwardOf(uid, from, near, func(h head, b []byte) bool {
		if h.author.Kind == journaletv1.ActorKind_ACTOR_KIND_RUNTIME || !bytes.Contains(b, needle) {
			return false
		}
		rec, err := messages.Decode(b)
		if err != nil {
			return false
		}
		for _, e := range messages.Events(rec) {
			for _, ref := range history.NamedPods(e) {
				if ref.GetUid() == uid && ref.GetName() != "" {
					x.d.Name(uid, ref.GetNamespace(), ref.GetName())
					return true
				}
			}
		}
		return false
	})
}
