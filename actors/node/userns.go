package node

import (
	"cmp"
	"maps"
	"slices"

	"github.com/journalet/journalet/messages/journaletv1"
)

// noUserNamespace rejects a pod when no ids are left. The message is the kubelet's, for a sandbox that it cannot
// create.
var noUserNamespace = &rejection{
	"OutOfUserNamespaces", "create user namespace: could not find an empty slot to allocate a user namespace",
}

// userNamespace returns the ids for a pod that is about to be admitted: the reserved ones, or what it had before the
// journal was lost, else the lowest ids that are free. ok is false if none are. Both are nil and true for a pod
// in the node's user namespace.
func (a *Actor) userNamespace(q *journaletv1.AdmissionRequested) (ids *journaletv1.UserNamespace, ok bool) {
	if !q.GetUserNamespace() {
		return nil, true
	}
	if reserved := a.state.Reservations[q.GetUid()].GetUserNamespace(); reserved != nil {
		return reserved, true
	}
	if had := a.state.FoundUserNamespaces[q.GetUid()]; had != nil {
		return had, true
	}
	idRange := a.state.GetConfig().GetUserNamespaces()
	length := uint64(idRange.GetIdsPerPod())
	if length == 0 {
		return nil, false // a journal from before there were user namespaces
	}
	at := uint64(idRange.GetFirst())
	end := at + uint64(idRange.GetPods())*length
	for _, taken := range a.takenUserNamespaces() {
		from := uint64(taken.GetHostId())
		to := from + uint64(taken.GetLength())
		if to <= at {
			continue
		}
		if from >= at+length {
			break
		}
		at = (to + length - 1) / length * length
	}
	if at+length > end {
		return nil, false
	}
	return &journaletv1.UserNamespace{HostId: uint32(at), Length: uint32(length)}, true
}

// HasUserNamespace reports whether the node knows the ids of a pod.
func (a *Actor) HasUserNamespace(uid string) bool {
	return a.state.Pods[uid].GetUserNamespace() != nil || a.state.FoundUserNamespaces[uid] != nil
}

// takenUserNamespaces returns the ids that pods have, or that are reserved for them, by their first id.
func (a *Actor) takenUserNamespaces() []*journaletv1.UserNamespace {
	var all []*journaletv1.UserNamespace
	for _, uid := range slices.Sorted(maps.Keys(a.state.Pods)) {
		if ids := a.state.Pods[uid].GetUserNamespace(); ids != nil {
			all = append(all, ids)
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(a.state.Reservations)) {
		if ids := a.state.Reservations[uid].GetUserNamespace(); ids != nil {
			all = append(all, ids)
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(a.state.FoundUserNamespaces)) {
		all = append(all, a.state.FoundUserNamespaces[uid])
	}
	slices.SortStableFunc(all, func(x, y *journaletv1.UserNamespace) int {
		return cmp.Compare(x.GetHostId(), y.GetHostId())
	})
	return all
}

// evolveFoundUserNamespaces adds the ids of pods that the journal does not have.
func (a *Actor) evolveFoundUserNamespaces(found map[string]*journaletv1.UserNamespace) {
	for _, uid := range slices.Sorted(maps.Keys(found)) {
		if a.state.FoundUserNamespaces == nil {
			a.state.FoundUserNamespaces = map[string]*journaletv1.UserNamespace{}
		}
		if a.state.Pods[uid].GetUserNamespace() == nil {
			a.state.FoundUserNamespaces[uid] = found[uid]
		}
	}
}
