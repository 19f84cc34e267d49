package agent

import (
	"context"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/oom"
	"github.com/journalet/journalet/runtime/stats"
)

// newOOM creates the driver that watches for processes killed for lack of memory; nil if nothing real runs.
func (a *agent) newOOM() *oom.Driver {
	if simulated(a.cfg) {
		return nil
	}
	o := oom.Options{
		Find: a.placeOf, Log: a.log,
		Sink: func(ctx context.Context, about messages.Ref, e *journaletv1.Event) error {
			return a.host.Fact(ctx, about, e)
		},
	}
	if a.cgroups != nil {
		o.Top = a.cgroups.Top
	}
	return oom.New(o)
}

// placeOf returns the container or the pod that a cgroup belongs to, as the runtime showed them last.
func (a *agent) placeOf(cgroup string) (oom.Place, bool) {
	for _, o := range a.pleg.Observed() {
		podPath := ""
		if m := a.manifests.Newest(o.GetUid()); m != nil && a.cgroups != nil {
			podPath = a.cgroups.Path(m)
		}
		if p, ok := placeIn(o, podPath, cgroup); ok {
			return p, true
		}
	}
	return oom.Place{}, false
}

// placeIn returns the container of a pod that a cgroup belongs to, or the pod, if the cgroup is its.
func placeIn(o *journaletv1.PodObserved, podPath, cgroup string) (oom.Place, bool) {
	for _, c := range o.GetContainers() {
		for _, at := range stats.Candidates(podPath, c.GetId()) {
			if oom.Below(cgroup, at) {
				return oom.Place{
					UID: o.GetUid(), Container: c.GetName(), ID: c.GetId(), Path: at, PodPath: podPath,
				}, true
			}
		}
	}
	if podPath != "" && oom.Below(cgroup, podPath) {
		return oom.Place{UID: o.GetUid(), Path: podPath, PodPath: podPath}, true
	}
	return oom.Place{}, false
}
