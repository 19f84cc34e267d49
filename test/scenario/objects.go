package scenario

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cockroachdb/datadriven"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/containers"
	"github.com/journalet/journalet/actors/references"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// The objects that pods refer to, and the volumes of pods. An object is its contents, a word; a digest of it is the
// word itself. One whose contents begin with "bad" lacks a key: a volume of it fails until it changes.

// kindWords are a scenario's names for kinds of objects.
var kindWords = map[journaletv1.ObjectKind]string{
	journaletv1.ObjectKind_OBJECT_KIND_CONFIG_MAP:            "configmap",
	journaletv1.ObjectKind_OBJECT_KIND_SECRET:                "secret",
	journaletv1.ObjectKind_OBJECT_KIND_SERVICE_ACCOUNT_TOKEN: "token",
	journaletv1.ObjectKind_OBJECT_KIND_CLUSTER_TRUST_BUNDLE:  "bundle",
}

// unreadable are the contents of an object that cannot be read.
const unreadable = "unreadable"

func word(ref *journaletv1.ObjectRef) string { return kindWords[ref.GetKind()] + "/" + ref.GetName() }

// read returns what the store has of an object.
func (w *world) read(ref *journaletv1.ObjectRef) *journaletv1.ObjectRead {
	r := &journaletv1.ObjectRead{Ref: ref}
	switch contents := w.store[word(ref)]; contents {
	case "":
		r.State = journaletv1.ObjectState_OBJECT_STATE_MISSING
	case unreadable:
		r.State, r.Message = journaletv1.ObjectState_OBJECT_STATE_UNREADABLE, word(ref)+" is no YAML"
	default:
		r.State, r.Digest = journaletv1.ObjectState_OBJECT_STATE_PRESENT, contents
	}
	return r
}

// lacking returns which required object of a list is missing, or lacks a key; empty for none.
func (w *world) lacking(uses []references.Use) string {
	for _, u := range uses {
		switch contents := w.store[word(u.Ref)]; {
		case contents == "" && u.Optional:
		case contents == "", contents == unreadable:
			return word(u.Ref) + " not found"
		case strings.HasPrefix(contents, "bad"):
			return word(u.Ref) + " lacks a key"
		}
	}
	return ""
}

// holds reports whether a pod waits for an object with good reason.
func (w *world) holds(m *corev1.Pod) bool {
	if m == nil {
		return false
	}
	for i := range m.Spec.Volumes {
		if w.lacking(references.OfVolume(m, &m.Spec.Volumes[i])) != "" {
			return true
		}
	}
	for c := range containers.All(m) {
		if w.lacking(references.OfContainer(c)) != "" {
			return true
		}
	}
	return false
}

// newest returns what a volume holds if it is set up now.
func (w *world) newest(m *corev1.Pod, v *corev1.Volume) string {
	text := "set up"
	for _, u := range references.OfVolume(m, v) {
		text += " " + word(u.Ref) + "=" + w.store[word(u.Ref)]
	}
	return text
}

// volumeOf returns a volume of a manifest; nil for none.
func volumeOf(m *corev1.Pod, name string) *corev1.Volume {
	for i := range m.Spec.Volumes {
		if m.Spec.Volumes[i].Name == name {
			return &m.Spec.Volumes[i]
		}
	}
	return nil
}

// setUpVolumes sets up the volumes of a call that can be.
func (w *world) setUpVolumes(
	o *objects, alias string, k *journaletv1.SetUpVolumes, m *corev1.Pod, out *journaletv1.CallFinished,
) {
	for _, v := range k.GetVolumes() {
		spec := volumeOf(m, v.GetName())
		if spec == nil {
			w.violation("%s: a call sets up volume %s, which the pod does not have", alias, v.GetName())
			continue
		}
		outcome := &journaletv1.VolumeOutcome{Name: v.GetName()}
		out.Volumes = append(out.Volumes, outcome)
		uses := references.OfVolume(m, spec)
		if problem := w.lacking(uses); problem != "" {
			outcome.Message = "MountVolume.SetUp failed for volume " + v.GetName() + ": " + problem
			outcome.Retryable = !strings.HasSuffix(problem, "lacks a key")
			failVolumes(out, outcome.GetMessage(), out.GetRetryable() || outcome.GetRetryable())
			continue
		}
		o.volumes[v.GetName()] = w.newest(m, spec)
	}
}

func failVolumes(out *journaletv1.CallFinished, message string, retryable bool) {
	out.Error, out.Message, out.Retryable = journaletv1.CallError_CALL_ERROR_VOLUME, message, retryable
}

// cleanPod tears down a pod's volumes.
func (o *objects) cleanPod(k *journaletv1.CleanPod) {
	clear(o.volumes)
	if k.GetAll() {
		clear(o.starts)
	}
}

// mayCreate reports whether what a container's environment refers to is there. A container that is created without one
// of its pod's volumes is a violation.
func (w *world) mayCreate(o *objects, alias, name string, m *corev1.Pod, out *journaletv1.CallFinished) bool {
	for i := range m.Spec.Volumes {
		if volume := m.Spec.Volumes[i].Name; o.volumes[volume] == "" {
			w.violation("%s: container %s is created without volume %s", alias, name, volume)
		}
	}
	for c := range containers.All(m) {
		if problem := w.lacking(references.OfContainer(c)); c.Name == name && problem != "" {
			out.Error, out.Message, out.Retryable = journaletv1.CallError_CALL_ERROR_CONFIG, problem, true
			return false
		}
	}
	return true
}

// checkVolumesAtRest reports volumes that are not as they should be when nothing is left to happen.
func (g *engine) checkVolumesAtRest(uid string, runs bool, report func(string, ...any)) {
	o, name := g.world.objectsOf(uid), g.names.aliasOf(uid)
	a := g.pod(uid)
	if !runs {
		if len(o.volumes) > 0 {
			report("pod/%s has ended and has volumes: %v", name, o.volumes)
		}
		return
	}
	m := a.Manifest()
	for i := range m.Spec.Volumes {
		v := &m.Spec.Volumes[i]
		if g.world.lacking(references.OfVolume(m, v)) != "" {
			continue
		}
		if has, newest := o.volumes[v.Name], g.world.newest(m, v); has != newest {
			report("pod/%s: volume %s has %q, and not %q", name, v.Name, has, newest)
		}
	}
}

// reportObjects reports to a pod what the store has of its objects. It returns false if nothing has changed.
func (g *engine) reportObjects(uid string) (bool, error) {
	a := g.pod(uid)
	if a == nil {
		return false, nil
	}
	r := &journaletv1.ObjectsRead{Uid: uid}
	for _, ref := range a.Pod().GetObjectRefs() {
		r.Objects = append(r.Objects, g.world.read(ref))
	}
	same := func(x, y *journaletv1.ObjectRead) bool { return proto.Equal(x, y) }
	if slices.EqualFunc(r.GetObjects(), a.Pod().GetObjects(), same) {
		return false, nil
	}
	return true, g.put(messages.Pod(uid), messages.NewEvent(r))
}

// object changes an object, and reports it to the pods that refer to it: "object <kind>/<name> <contents>". Without
// contents it is removed. With "unseen" no pod learns of it yet.
func (s *Scenario) object(d *datadriven.TestData) (string, error) {
	name, contents := d.CmdArgs[0].Key, ""
	if len(d.CmdArgs) > 1 && d.CmdArgs[1].Key != "unseen" {
		contents = d.CmdArgs[1].Key
	}
	s.g.world.store[name] = contents
	if d.HasArg("unseen") {
		return "", nil
	}
	return s.objects(d)
}

// objects reports to all pods what the store has of their objects.
func (s *Scenario) objects(*datadriven.TestData) (string, error) {
	for _, uid := range s.g.names.uids {
		if err := s.moment(func() error { _, err := s.g.reportObjects(uid); return err }); err != nil {
			return "", err
		}
	}
	return "", nil
}

// lost records that volumes of a pod are no longer mounted: "lost pod=<alias> volumes=(<name>,...)".
func (s *Scenario) lost(d *datadriven.TestData) (string, error) {
	uid, err := s.uid(d)
	if err != nil {
		return "", err
	}
	for _, name := range values(d, "volumes") {
		delete(s.g.world.objectsOf(uid).volumes, name)
	}
	return "", s.put(messages.Pod(uid), messages.NewEvent(&journaletv1.VolumesLost{Uid: uid, Names: values(d, "volumes")}))
}

// directory records that a pod that nothing names has a directory: "directory <uid>".
func (s *Scenario) directory(d *datadriven.TestData) (string, error) {
	uid := d.CmdArgs[0].Key
	s.name(uid, uid)
	return "", s.put(messages.Pod(uid), messages.NewEvent(&journaletv1.PodDirectoryFound{Uid: uid}))
}

// storage records that a pod exceeds a limit of ephemeral storage: "storage pod=<alias> message=(<text>)".
func (s *Scenario) storage(d *datadriven.TestData) (string, error) {
	uid, err := s.uid(d)
	if err != nil {
		return "", err
	}
	return "", s.put(messages.Pod(uid), messages.NewEvent(&journaletv1.StorageExceeded{
		Uid: uid, Container: arg(d, "container", ""), UsedBytes: 2 << 20, LimitBytes: 1 << 20,
		Message: arg(d, "message", "Pod ephemeral local storage usage exceeds the total limit of containers 1Mi. "),
	}))
}

// failVolumesOf records the failure of a call on volumes, with an outcome for each: only the volumes that the command
// names fail. With attach-limit, they fail because the node has no room for them.
func (s *Scenario) failVolumesOf(d *datadriven.TestData, c *journaletv1.Call) error {
	uid := c.GetRequest().GetPodUid()
	o, failing := s.g.world.objectsOf(uid), values(d, "volume")
	kept := map[string]string{}
	for _, name := range failing {
		if has, is := o.volumes[name]; is {
			kept[name] = has
		}
	}
	out := s.g.perform(c)
	message := arg(d, "message", "it failed")
	for _, name := range failing {
		if delete(o.volumes, name); kept[name] != "" {
			o.volumes[name] = kept[name]
		}
		out.Volumes = slices.DeleteFunc(out.Volumes, func(x *journaletv1.VolumeOutcome) bool { return x.GetName() == name })
		out.Volumes = append(out.Volumes, &journaletv1.VolumeOutcome{Name: name, Message: message, Retryable: true,
			AttachLimitExceeded: d.HasArg("attach-limit")})
	}
	failVolumes(out, message, true)
	return s.moment(func() error { return s.g.finish(out) })
}

// volumes shows a pod's volumes as they are on the node.
func (s *Scenario) volumes(d *datadriven.TestData) (string, error) {
	uid, err := s.uid(d)
	if err != nil {
		return "", err
	}
	text := ""
	all := s.g.world.objectsOf(uid).volumes
	for _, name := range slices.Sorted(maps.Keys(all)) {
		text += name + ": " + all[name] + "\n"
	}
	if text == "" {
		return "no volume\n", nil
	}
	return text, nil
}

// objectsOrVolumes describes decisions on objects; claimOrOrphan describes the rest.
func (n *names) objectsOrVolumes(e *journaletv1.Event) string {
	if k := e.GetObjectsSet(); k != nil {
		var all []string
		for _, ref := range k.GetRefs() {
			all = append(all, word(ref))
		}
		return strings.TrimSpace("set objects: " + strings.Join(all, " "))
	}
	return n.claimOrOrphan(e)
}

// volumesText names the volumes of a call.
func volumesText(k *journaletv1.SetUpVolumes) string {
	text := ""
	for _, v := range k.GetVolumes() {
		text += fmt.Sprintf(" %s", v.GetName())
	}
	return text
}
