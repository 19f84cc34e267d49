package pod

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/references"
	"github.com/journalet/journalet/messages/journaletv1"
)

// The stages of a volume, short.
const (
	absentVolume = journaletv1.VolumeStage_VOLUME_STAGE_ABSENT
	volumeSetUp  = journaletv1.VolumeStage_VOLUME_STAGE_SET_UP
	tornDown     = journaletv1.VolumeStage_VOLUME_STAGE_TORN_DOWN
)

// derived is what follows from the manifest and from what was read of its objects. It is no part of the state: it is
// computed when it is needed, and dropped when one of the two changes.
type derived struct {
	refs    []*journaletv1.ObjectRef
	volumes []desiredVolume
	// known reports whether the two are computed.
	known bool
}

// desiredVolume is what a volume of the manifest is to hold.
type desiredVolume struct {
	name string
	// contents is a digest of it; empty while an object is not read or is missing.
	contents string
	// problem is which one is missing, in the kubelet's words; empty while it is merely not read yet.
	problem string
	// apart reports whether it is set up apart from the others: by a CSI driver, or from an NFS server.
	apart bool
}

// unread reports whether the store has not read an object of the volume yet.
func (v desiredVolume) unread() bool { return v.contents == "" && v.problem == "" }

// derive returns what follows from the manifest and its objects.
func (a *Actor) derive() *derived {
	if a.derived.known {
		return &a.derived
	}
	a.derived = derived{refs: references.References(a.manifest), known: true}
	if a.manifest == nil {
		return &a.derived
	}
	for i := range a.manifest.Spec.Volumes {
		v := &a.manifest.Spec.Volumes[i]
		d := desiredVolume{name: v.Name, apart: references.IsSetUpApart(v)}
		uses := references.OfVolume(a.manifest, v)
		held, problem := a.lacking(uses)
		if !held {
			d.contents = a.contents(v, uses)
		}
		if problem != "" {
			d.problem = fmt.Sprintf("MountVolume.SetUp failed for volume %q : %s", v.Name, problem)
		}
		a.derived.volumes = append(a.derived.volumes, d)
	}
	return &a.derived
}

// contents returns the digest of what a volume is to hold: its source, the objects it refers to, and what it projects
// of the manifest.
func (a *Actor) contents(v *corev1.Volume, uses []references.Use) string {
	h := sha256.New()
	put(h, v.VolumeSource)
	for _, u := range uses {
		o := a.object(u.Ref)
		put(h, []string{u.Ref.GetKind().String(), u.Ref.GetName(), u.Ref.GetSelector(), o.GetDigest()})
	}
	if v.DownwardAPI != nil {
		a.putDownward(h, v.DownwardAPI.Items)
	}
	if v.Projected != nil {
		for i := range v.Projected.Sources {
			if s := v.Projected.Sources[i].DownwardAPI; s != nil {
				a.putDownward(h, s.Items)
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// put hashes a value as JSON. A hash fails no write.
func put(h hash.Hash, v any) { _ = json.NewEncoder(h).Encode(v) }

// putDownward hashes what files of the downward API show of the manifest and may change while the pod runs: labels,
// annotations, and the allocated resources.
func (a *Actor) putDownward(h hash.Hash, files []corev1.DownwardAPIVolumeFile) {
	for i := range files {
		if ref := files[i].ResourceFieldRef; ref != nil {
			if c := a.spec(ref.ContainerName); c != nil {
				put(h, c.Resources)
			}
			continue
		}
		if files[i].FieldRef == nil {
			continue
		}
		field, key, one := strings.Cut(files[i].FieldRef.FieldPath, "['")
		values := map[string]map[string]string{
			"metadata.labels": a.manifest.Labels, "metadata.annotations": a.manifest.Annotations,
		}[field]
		if one {
			put(h, values[strings.TrimSuffix(key, "']")])
		} else {
			put(h, values)
		}
	}
}

// object returns what was last read of an object, nil before.
func (a *Actor) object(ref *journaletv1.ObjectRef) *journaletv1.ObjectRead {
	for _, o := range a.state.GetObjects() {
		if references.Equal(o.GetRef(), ref) {
			return o
		}
	}
	return nil
}

// lacking reports whether one of these objects is needed and not read, or missing. The problem names the missing
// objects in the kubelet's words; it is empty if objects are merely not read yet.
func (a *Actor) lacking(uses []references.Use) (held bool, problem string) {
	var problems []string
	for _, u := range uses {
		o := a.object(u.Ref)
		switch {
		case o == nil:
			held = true
		case o.GetState() == journaletv1.ObjectState_OBJECT_STATE_PRESENT, o.GetDigest() != "":
			// Contents that were read before stay in use while the object cannot be read.
		case o.GetState() == journaletv1.ObjectState_OBJECT_STATE_MISSING && u.Optional:
		default:
			held = true
			if p := objectProblem(o); !slices.Contains(problems, p) {
				problems = append(problems, p)
			}
		}
	}
	if len(problems) > 1 {
		return held, "[" + strings.Join(problems, ", ") + "]"
	}
	return held, strings.Join(problems, "")
}

// noTrustBundles and noTrustBundle are why a selector of trust bundles, or one of a name, cannot be used, in the
// kubelet's words (pkg/kubelet/clustertrustbundle).
const (
	noTrustBundles = "combination of signerName and labelSelector matched zero ClusterTrustBundles"
	noTrustBundle  = "while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io %q not found"
)

// objectProblem returns why an object cannot be used, in the kubelet's words where it has some.
func objectProblem(o *journaletv1.ObjectRead) string {
	missing := o.GetState() == journaletv1.ObjectState_OBJECT_STATE_MISSING
	name, ref := "", o.GetRef()
	switch ref.GetKind() {
	case journaletv1.ObjectKind_OBJECT_KIND_CONFIG_MAP:
		name = fmt.Sprintf("configmap %q", ref.GetName())
	case journaletv1.ObjectKind_OBJECT_KIND_SECRET:
		name = fmt.Sprintf("secret %q", ref.GetName())
	case journaletv1.ObjectKind_OBJECT_KIND_SERVICE_ACCOUNT_TOKEN:
		name = fmt.Sprintf("token of service account %q", ref.GetName())
	case journaletv1.ObjectKind_OBJECT_KIND_CLUSTER_TRUST_BUNDLE:
		name = fmt.Sprintf("clustertrustbundle %q", ref.GetName()+ref.GetSelector())
		switch {
		case missing && ref.GetName() == "":
			return noTrustBundles
		case missing:
			return fmt.Sprintf(noTrustBundle, ref.GetName())
		}
	case journaletv1.ObjectKind_OBJECT_KIND_POD_CERTIFICATE:
		name = fmt.Sprintf("certificate for volume %q", ref.GetName())
	}
	switch {
	case missing:
		return name + " not found"
	case o.GetMessage() == "":
		return name + " cannot be read"
	}
	return o.GetMessage()
}

// usesOf returns what a container refers to: in its environment, and in the volumes that it mounts.
func (a *Actor) usesOf(c *corev1.Container) []references.Use {
	all := references.OfContainer(c)
	for i := range a.manifest.Spec.Volumes {
		v := &a.manifest.Spec.Volumes[i]
		if slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == v.Name }) {
			all = append(all, references.OfVolume(a.manifest, v)...)
		}
	}
	return all
}

// volumesReady reports whether a container may start with the pod's volumes as they are: each is set up, and no newer
// contents are about to appear. Contents that cannot be had hold up no container that has older contents, and a lost
// volume holds up only the containers that mount it.
func (a *Actor) volumesReady(c *corev1.Container) bool {
	return !slices.ContainsFunc(a.derive().volumes, func(v desiredVolume) bool {
		return !a.volumeReady(v) && (!a.state.Volumes[v.name].GetLost() || mounts(c, v.name))
	})
}

// mounts reports whether a container has a volume, as files or as a block device.
func mounts(c *corev1.Container, volume string) bool {
	return slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == volume }) ||
		slices.ContainsFunc(c.VolumeDevices, func(m corev1.VolumeDevice) bool { return m.Name == volume })
}

func (a *Actor) volumeReady(v desiredVolume) bool {
	r := a.state.Volumes[v.name]
	return r.GetStage() == volumeSetUp &&
		(v.contents == "" || r.GetContents() == v.contents || r.GetFailedContents() == v.contents)
}

// Gone reports whether nothing of the pod is left once it has handled the records that are pending: it has finished, or
// everything of it is removed, and it has not been added again.
func (a *Actor) Gone(pending []*journaletv1.Record) bool {
	gone := a.state.GetStage() == finished || a.state.GetCleanedAll()
	for _, rec := range pending {
		f := rec.GetFact().GetCallFinished()
		all := a.state.Calls[f.GetIntentId()].GetRequest().GetCleanPod().GetAll()
		gone = gone || all && f.GetError() == journaletv1.CallError_CALL_ERROR_UNSPECIFIED
		for _, e := range rec.GetStep().GetDecisions() {
			gone = gone && e.GetPodUpdated().GetOperation() != journaletv1.PodOperation_POD_OPERATION_ADD
		}
	}
	return gone
}

// OnNode reports whether the pod may have something on the node, by its records. A pod that was rejected, or waits for
// its admission, has nothing there.
func (a *Actor) OnNode() bool { return a.state.GetUsedRuntime() }

// VolumesSetUp returns the names of the volumes that may count as set up once the pod has handled the pending records,
// sorted: the volumes that are set up now, or, if a record may change that, all volumes of the manifest.
func (a *Actor) VolumesSetUp(pending []*journaletv1.Record) []string {
	certain := true
	for _, id := range slices.Sorted(maps.Keys(a.state.GetCalls())) {
		certain = certain && a.state.Calls[id].GetRequest().GetCleanPod() == nil
	}
	for _, rec := range pending {
		certain = certain && rec.GetFact().GetCallFinished() == nil
	}
	var names []string
	switch {
	case certain:
		for _, name := range slices.Sorted(maps.Keys(a.state.GetVolumes())) {
			if a.state.Volumes[name].GetStage() == volumeSetUp {
				names = append(names, name)
			}
		}
	case a.manifest != nil:
		for i := range a.manifest.Spec.Volumes {
			names = append(names, a.manifest.Spec.Volumes[i].Name)
		}
	}
	slices.Sort(names)
	return names
}
