package pod

import (
	"cmp"
	"maps"
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/actors/containers"
	"github.com/journalet/journalet/actors/references"
	"github.com/journalet/journalet/messages/journaletv1"
)

// evolveObjectsSet folds which objects the pod refers to. What was read of the others is of no use.
func (a *Actor) evolveObjectsSet(k *journaletv1.ObjectsSet) {
	a.state.ObjectRefs = k.GetRefs()
	a.setObjectsRead(a.state.GetObjects())
}

// setObjectsRead keeps what was read of the objects that the pod refers to.
func (a *Actor) setObjectsRead(all []*journaletv1.ObjectRead) {
	a.state.Objects = slices.DeleteFunc(slices.Clone(all), func(o *journaletv1.ObjectRead) bool {
		return !slices.ContainsFunc(a.state.GetObjectRefs(), func(ref *journaletv1.ObjectRef) bool {
			return references.Equal(ref, o.GetRef())
		})
	})
	a.derived = derived{}
}

// evolveObjectsRead folds what the store has of the pod's objects. What failed with an object that has changed since
// has no reason to wait any more.
func (a *Actor) evolveObjectsRead(k *journaletv1.ObjectsRead) {
	before := a.state.GetObjects()
	a.setObjectsRead(k.GetObjects())
	changed := func(u references.Use) bool {
		now := a.object(u.Ref)
		i := slices.IndexFunc(before, func(o *journaletv1.ObjectRead) bool { return references.Equal(o.GetRef(), u.Ref) })
		return i < 0 || !proto.Equal(before[i], now)
	}
	if a.manifest == nil {
		return
	}
	for _, id := range slices.Sorted(maps.Keys(a.state.Calls)) {
		a.state.Calls[id].ObjectsChanged = true
	}
	a.evolvePullSecrets(before)
	for i := range a.manifest.Spec.Volumes {
		v := &a.manifest.Spec.Volumes[i]
		if r := a.state.Volumes[v.Name]; r != nil && slices.ContainsFunc(references.OfVolume(a.manifest, v), changed) {
			resetVolume(r)
		}
	}
	for c := range containers.All(a.manifest) {
		r := a.state.Containers[c.Name]
		if r.GetStartError().GetReason() == reasonConfig && slices.ContainsFunc(a.usesOf(c), changed) {
			a.resetStart(r)
		}
	}
}

// evolvePullSecrets folds that a Secret with credentials of registries has appeared or changed.
func (a *Actor) evolvePullSecrets(before []*journaletv1.ObjectRead) {
	for _, name := range references.PullSecrets(a.manifest) {
		now := a.object(references.Secret(name)).GetDigest()
		same := slices.ContainsFunc(before, func(o *journaletv1.ObjectRead) bool {
			return references.Equal(o.GetRef(), references.Secret(name)) && o.GetDigest() == now
		})
		if now != "" && !same {
			a.renewCredentials()
		}
	}
}

// renewCredentials folds that the credentials of pulls have changed, if the pod waits for a pull.
func (a *Actor) renewCredentials() {
	for c := range containers.All(a.manifest) {
		if awaitsImages(a.record(c.Name)) {
			a.state.PullCredentialsChanged = true
		}
	}
}

// resetVolume drops the failures of a volume.
func resetVolume(r *journaletv1.VolumeRecord) {
	r.Failures, r.FailedAt, r.Message, r.FailedContents, r.Permanent = 0, nil, "", "", false
}

// ensureVolume returns the record of a volume, which it creates if need be. Only Evolve may call it.
func (a *Actor) ensureVolume(name string) *journaletv1.VolumeRecord {
	r := a.state.Volumes[name]
	if r == nil {
		r = &journaletv1.VolumeRecord{Name: name, Stage: absentVolume}
		a.state.Volumes[name] = r
	}
	return r
}

// evolveVolumesSetUp folds the outcome of a set-up. A volume that is set up stays so with the contents it has if newer
// ones fail. A failure does not count if an object of the pod has changed since the request.
func (a *Actor) evolveVolumesSetUp(e actors.Event, call *journaletv1.PodCall, f *journaletv1.CallFinished) {
	if f.GetError() == journaletv1.CallError_CALL_ERROR_WITHDRAWN {
		return
	}
	for _, v := range call.GetRequest().GetSetUpVolumes().GetVolumes() {
		r, o := a.ensureVolume(v.GetName()), outcomeOf(f, v.GetName())
		if o.GetMessage() == "" {
			resetVolume(r)
			r.Stage, r.Contents, r.Lost = volumeSetUp, v.GetContents(), false
			continue
		}
		if call.GetObjectsChanged() && a.hasObjects(v.GetName()) {
			continue
		}
		if r.GetFailedContents() != v.GetContents() {
			resetVolume(r)
		}
		r.Failures++
		r.FailedAt, r.Message, r.FailedContents = timestamppb.New(e.Time), o.GetMessage(), v.GetContents()
		r.Permanent = !o.GetRetryable()
	}
}

// hasObjects reports whether a volume refers to objects.
func (a *Actor) hasObjects(name string) bool {
	for i := range a.manifest.Spec.Volumes {
		if v := &a.manifest.Spec.Volumes[i]; v.Name == name {
			return len(references.OfVolume(a.manifest, v)) > 0
		}
	}
	return false
}

// outcomeOf returns the outcome of one volume. A call that fails without one has failed for all its volumes, and may
// succeed later.
func outcomeOf(f *journaletv1.CallFinished, name string) *journaletv1.VolumeOutcome {
	for _, o := range f.GetVolumes() {
		if o.GetName() == name {
			return o
		}
	}
	o := &journaletv1.VolumeOutcome{Name: name, Retryable: true}
	if f.GetError() != journaletv1.CallError_CALL_ERROR_UNSPECIFIED {
		o.Message = cmp.Or(f.GetMessage(), f.GetError().String())
	}
	return o
}

// evolveCleaned folds the outcome of a tear-down. The message of a volume that could not be torn down names what holds
// it.
func (a *Actor) evolveCleaned(e actors.Event, w *journaletv1.CleanPod, f *journaletv1.CallFinished) {
	s := a.state
	ok := f.GetError() == journaletv1.CallError_CALL_ERROR_UNSPECIFIED
	s.CleanedAll = s.CleanedAll || ok && w.GetAll()
	for _, o := range f.GetVolumes() {
		if o.GetName() == "" {
			continue
		}
		r := a.ensureVolume(o.GetName())
		resetVolume(r)
		if o.GetMessage() == "" {
			r.Stage, r.Contents = tornDown, ""
			continue
		}
		r.Failures, r.FailedAt, r.Message = 1, timestamppb.New(e.Time), o.GetMessage()
	}
	if !ok {
		return
	}
	s.Found = false
	if a.manifest != nil {
		for i := range a.manifest.Spec.Volumes {
			a.ensureVolume(a.manifest.Spec.Volumes[i].Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Volumes)) {
		r := s.Volumes[name]
		resetVolume(r)
		r.Stage, r.Contents = tornDown, ""
	}
}

// evolveVolumesLost folds that volumes are no longer mounted. They are set up again; what runs keeps running.
func (a *Actor) evolveVolumesLost(k *journaletv1.VolumesLost) {
	for _, name := range k.GetNames() {
		if r := a.state.Volumes[name]; r.GetStage() == volumeSetUp {
			resetVolume(r)
			r.Stage, r.Contents = absentVolume, ""
		}
	}
}

// evolveVolumesGone folds that the start of a container has found volumes gone that were set up.
func (a *Actor) evolveVolumesGone(f *journaletv1.CallFinished) {
	for _, o := range f.GetVolumes() {
		if r := a.state.Volumes[o.GetName()]; r.GetStage() == volumeSetUp {
			resetVolume(r)
			r.Stage, r.Contents, r.Lost = absentVolume, "", true
		}
	}
}

// evolveDirectoryFound folds that a pod has a directory that the journal did not know of when the agent started. If
// nothing names the pod, it goes the way of an orphan. If it was named meanwhile and rejected, it is cleaned as one
// that has ended. If it counts as cleaned or finished, the directory is of an incarnation whose records were lost: it
// is cleaned again, and the next incarnation waits for that.
func (a *Actor) evolveDirectoryFound(e actors.Event) {
	s := a.state
	s.UsedRuntime, s.CleanedAll = true, false
	if s.GetStage() == finished {
		s.Source, s.Orphan = "", true
		a.enter(cleaning, e.Time)
	}
}
