package simulation

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/actors/references"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/fold"
	objectstore "github.com/journalet/journalet/runtime/objects"
)

// The objects of a plan, by kind and name. The late ones belong to a pod that is added when everything else is at rest.
var (
	planObjects = []string{"configmap/conf0", "configmap/conf1", "secret/keys0", "secret/keys1"}
	lateObjects = []string{"configmap/late", "secret/late"}
)

// lacksKey are the contents of an object without the key that pods need.
const lacksKey = "lacks the key"

// nodeFiles are the objects and the pods' directories of a node.
type nodeFiles struct {
	// store has the contents of each object, by kind and name; an object that is missing has none. versions counts
	// changes.
	store    map[string]string
	versions int
	// disk has the volumes that are set up, with what they hold, by UID and name. A pod without a directory is missing.
	disk map[string]map[string]string
	// lost are the uptimes at which the volume that containers mount went from a pod's disk, by UID.
	lost map[string]time.Duration
	// instances are the files of containers' instances, by UID: logs, links to them and termination messages.
	instances map[string]map[instanceFile]*instanceText
	// resources are the pods' exclusive resources, by UID (ADR 072).
	resources map[string]*journaletv1.GivenResources
	given     uint64 // the last number in them
	// users are the ids of pods' user namespaces, by UID (ADR 042).
	users map[string]*journaletv1.UserNamespace
	// noise draws how long the store takes.
	noise *rand.Rand
	// hungUntil is the uptime until which mounts hang.
	hungUntil time.Duration
	exports   exports
	// changed is called at each change of an object.
	changed func()
}

func newNodeFiles(seed uint64) *nodeFiles {
	n := &nodeFiles{store: map[string]string{}, disk: map[string]map[string]string{}, lost: map[string]time.Duration{},
		instances: map[string]map[instanceFile]*instanceText{}, resources: map[string]*journaletv1.GivenResources{},
		users: map[string]*journaletv1.UserNamespace{},
		noise: stream(seed, "noise of objects"), changed: func() {}, exports: exports{points: map[string]bool{}}}
	for _, name := range planObjects {
		if !chance(n.noise, 4) {
			n.set(name)
		}
	}
	return n
}

// set gives an object contents that no object had before.
func (n *nodeFiles) set(name string) {
	n.versions++
	n.store[name] = fmt.Sprintf("%s-%d", secret, n.versions)
	n.changed()
}

// otherObject changes an object: other contents, contents without the key, or none.
func (s *sim) otherObject(o Op) {
	name := planObjects[o.pick%uint64(len(planObjects))]
	if s.config.clustered && o.pick/8%2 == 0 {
		name = ofAPIServer + name
	}
	switch n := s.world.files; o.pick / 16 % 8 {
	case 0, 1:
		delete(n.store, name)
		n.changed()
	case 2:
		n.store[name] = lacksKey
		n.changed()
	default:
		n.set(name)
	}
}

// fix gives every object contents.
func (n *nodeFiles) fix() {
	n.hungUntil, n.exports.awayUntil = 0, 0
	for _, from := range []string{"", ofAPIServer} {
		for _, name := range planObjects {
			if c := n.store[from+name]; c == "" || c == lacksKey {
				n.set(from + name)
			}
		}
	}
}

// reboot loses what is in memory: the volumes of secrets.
func (n *nodeFiles) reboot() {
	for _, uid := range slices.Sorted(maps.Keys(n.disk)) {
		delete(n.disk[uid], "keys")
	}
	n.exports.reboot(n.disk)
}

func objectName(ref *journaletv1.ObjectRef) string {
	kind := "configmap"
	if ref.GetKind() == journaletv1.ObjectKind_OBJECT_KIND_SECRET {
		kind = "secret"
	}
	return kind + "/" + ref.GetName()
}

// ofAPIServer begins the names of objects that the API server has.
const ofAPIServer = "api/"

// holding returns what a volume holds if it is set up now, and why it cannot be. from begins the names of the objects
// in the store. final reports that only another object
// helps.
func (n *nodeFiles) holding(from string, m *corev1.Pod, v *corev1.Volume) (contents, problem string, final bool) {
	contents = "set up"
	for _, u := range references.OfVolume(m, v) {
		switch c := n.store[from+objectName(u.Ref)]; {
		case c == "" && !u.Optional:
			return "", objectName(u.Ref) + " not found", false
		case c == lacksKey:
			return "", objectName(u.Ref) + " " + c, true
		default:
			contents += " " + objectName(u.Ref) + "=" + c
		}
	}
	return contents, "", false
}

// SetUp implements cri.Volumes, as do the methods below. A volume that fails keeps what it holds.
func (d disk) SetUp(
	ctx context.Context, m *corev1.Pod, req *journaletv1.SetUpVolumes,
) []*journaletv1.VolumeOutcome {
	n := d.run.world.files
	for d.run.clock.uptime < n.hungUntil {
		d.run.clock.current.sleep(n.hungUntil - d.run.clock.uptime)
	}
	var all []*journaletv1.VolumeOutcome
	for _, v := range req.GetVolumes() {
		o := &journaletv1.VolumeOutcome{Name: v.GetName()}
		all = append(all, o)
		if err := d.work(); err != nil {
			o.Message, o.Retryable = err.Error(), true
			continue
		}
		if spec := volumeIn(m, v.GetName()); ofDriver(spec) {
			if err := d.run.storage.SetUp(ctx, m, spec); err != nil {
				o.Message, o.Retryable = err.Error(), true
			}
			continue
		}
		contents, problem, final := n.holding(d.run.things.from(string(m.UID)), m, volumeIn(m, v.GetName()))
		if problem != "" {
			o.Message, o.Retryable = problem, !final
			continue
		}
		if n.disk[string(m.UID)] == nil {
			n.disk[string(m.UID)] = map[string]string{}
		}
		if v.GetName() == exportVolume && n.disk[string(m.UID)][exportVolume] == "" {
			if o.Message = d.mountExport(string(m.UID)); o.Message != "" {
				o.Retryable = true
				continue
			}
		}
		if n.disk[string(m.UID)][v.GetName()] = contents; v.GetName() == scratchVolume {
			delete(n.lost, string(m.UID))
		}
	}
	return all
}

func hasVolume(m *corev1.Pod, name string) bool {
	return slices.ContainsFunc(m.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == name })
}

func volumeIn(m *corev1.Pod, name string) *corev1.Volume {
	i := slices.IndexFunc(m.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == name })
	return &m.Spec.Volumes[i]
}

// TearDown tears down volumes one by one. One that is busy does not stop the others.
func (d disk) TearDown(ctx context.Context, uid string) ([]*journaletv1.VolumeOutcome, error) {
	n := d.run.world.files
	d.run.judge.volumesTornDown(uid)
	d.unmountExport(uid)
	delete(n.lost, uid)
	delete(n.exports.points, uid)
	all, err := d.tearDownStorage(ctx, uid)
	if err != nil {
		return nil, err
	}
	if len(n.disk[uid]) == 0 {
		return all, d.work()
	}
	for _, name := range slices.Sorted(maps.Keys(n.disk[uid])) {
		o := &journaletv1.VolumeOutcome{Name: name}
		if all = append(all, o); d.work() != nil {
			o.Message, o.Retryable = "volume "+name+" is busy: process 7 (cat)", true
			continue
		}
		delete(n.disk[uid], name)
	}
	return all, nil
}

// Clean removes a pod's directory once nothing is mounted below it.
func (d disk) Clean(ctx context.Context, uid, _, _ string) ([]*journaletv1.VolumeOutcome, error) {
	all, err := d.TearDown(ctx, uid)
	if err != nil || len(d.run.world.files.disk[uid]) > 0 || d.run.world.storage.has(uid) {
		return all, err
	}
	delete(d.run.world.files.disk, uid)
	delete(d.run.world.files.instances, uid)
	delete(d.run.world.files.resources, uid)
	delete(d.run.world.files.users, uid)
	d.run.world.setConditions(uid, nil)
	return all, nil
}

// CreatePodDirs implements cri.Volumes.
func (d disk) CreatePodDirs(uid string) error {
	if n := d.run.world.files; n.disk[uid] == nil {
		n.disk[uid] = map[string]string{}
	}
	return nil
}

// store reports to pods what the node has of their objects, as runtime/objects does. It implements objects.Getter.
type store struct {
	run  *run
	p    *proc
	refs map[string][]*journaletv1.ObjectRef
	last map[string][]*journaletv1.ObjectRead
	// api has the pods whose objects come from the API server.
	api   map[string]bool
	dirty bool
}

// from returns what the names of a pod's objects begin with.
func (s *store) from(uid string) string {
	if s.api[uid] {
		return ofAPIServer
	}
	return ""
}

var _ objectstore.Getter = (*store)(nil)

func newStore(r *run) *store {
	return &store{run: r, refs: map[string][]*journaletv1.ObjectRef{}, last: map[string][]*journaletv1.ObjectRead{},
		api: map[string]bool{}, dirty: true}
}

func (s *store) notify() {
	if s.dirty = true; s.p != nil {
		s.p.interrupt()
	}
}

func (s *store) loop(p *proc) {
	for s.p = p; ; {
		if !s.dirty {
			p.sleep(time.Hour)
			continue
		}
		s.dirty = false
		p.sleep(between(s.run.world.files.noise, time.Millisecond, 50*time.Millisecond))
		for _, uid := range slices.Sorted(maps.Keys(s.refs)) {
			s.report(uid)
		}
	}
}

func (s *store) report(uid string) {
	read := &journaletv1.ObjectsRead{Uid: uid}
	for _, ref := range s.refs[uid] {
		o := &journaletv1.ObjectRead{Ref: ref, State: journaletv1.ObjectState_OBJECT_STATE_MISSING}
		if c := s.run.world.files.store[s.from(uid)+objectName(ref)]; c != "" {
			o.State = journaletv1.ObjectState_OBJECT_STATE_PRESENT
			o.Digest = "digest of " + strings.TrimPrefix(c, secret)
		}
		read.Objects = append(read.Objects, o)
	}
	same := func(a, b *journaletv1.ObjectRead) bool { return proto.Equal(a, b) }
	last, reported := s.last[uid]
	if len(read.GetObjects()) == 0 || reported && slices.EqualFunc(last, read.Objects, same) {
		return
	}
	s.last[uid] = read.Objects
	_ = s.run.emit(messages.Pod(uid), read) // it does not fail
}

// Name implements drivers.Driver.
func (*store) Name() string { return "objects" }

// Stored follows which objects pods refer to.
func (s *store) Stored(rec *journaletv1.Record) {
	for _, e := range rec.GetStep().GetDecisions() {
		if k := e.GetObjectsSet(); k != nil {
			uid := rec.GetActor().GetId()
			s.refs[uid], s.api[uid] = k.GetRefs(), k.GetApi()
			delete(s.last, uid)
			s.notify()
		}
	}
}

// Recover takes what all pods refer to, and what each was given last.
func (s *store) Recover(r fold.Recovered) {
	fold.EachOf(r, func(ref messages.Ref, d *pod.Actor) {
		if len(d.Pod().GetObjectRefs()) == 0 {
			return
		}
		s.refs[ref.ID], s.api[ref.ID] = d.Pod().GetObjectRefs(), d.Pod().GetPod().GetApi() != nil
		if read := d.Pod().GetObjects(); len(read) > 0 {
			s.last[ref.ID] = read
		}
		fold.PendingFacts(r, ref, func(e *journaletv1.Event) {
			if read := e.GetObjectsRead(); read != nil {
				s.last[ref.ID] = read.GetObjects()
			}
		})
	})
}

func (s *store) contents(owner objectstore.Owner, kind, name string) (map[string]string, error) {
	switch c := s.run.world.files.store[s.from(owner.UID)+kind+"/"+name]; c {
	case "":
		return nil, fmt.Errorf("%s %q %w", kind, name, objectstore.ErrNotFound)
	case lacksKey:
		return map[string]string{}, nil
	default:
		return map[string]string{"key": c}, nil
	}
}

// ConfigMap implements objects.Getter, as do the methods below.
func (s *store) ConfigMap(_ context.Context, o objectstore.Owner, name string) (*corev1.ConfigMap, error) {
	data, err := s.contents(o, "configmap", name)
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: name}, Data: data}, err
}

// Secret returns a Secret.
func (s *store) Secret(_ context.Context, o objectstore.Owner, name string) (*corev1.Secret, error) {
	data, err := s.contents(o, "secret", name)
	out := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: name}, Data: map[string][]byte{}}
	for k, v := range data {
		out.Data[k] = []byte(v)
	}
	return out, err
}

// Token returns no token: no pod of a plan has one.
func (s *store) Token(context.Context, *corev1.Pod, *corev1.ServiceAccountTokenProjection) (string, error) {
	return "", objectstore.ErrNotFound
}

// TrustBundle returns no certificates: no pod of a plan has any.
func (s *store) TrustBundle(context.Context, objectstore.Owner, *corev1.ClusterTrustBundleProjection) ([]byte, error) {
	return nil, objectstore.ErrNotFound
}

// Certificate returns none: no pod of a plan has any.
func (s *store) Certificate(context.Context, *corev1.Pod, string, int) (*objectstore.Certificate, error) {
	return nil, objectstore.ErrNotFound
}

// responds reports whether a request to the runtime is answered now.
func (w *world) responds() bool { return w.up && w.clock.uptime >= w.hungUntil }

// exceedStorage reports that a pod exceeds a limit of ephemeral storage.
func (s *sim) exceedStorage(o Op) {
	if s.agent == nil {
		return
	}
	r := s.agent
	var all []messages.Ref
	for _, ref := range r.cells.Refs() {
		if d, ok := r.cells.Decider(ref).(*pod.Actor); ok &&
			d.Pod().GetStage() == journaletv1.PodStage_POD_STAGE_RUNNING {
			all = append(all, ref)
		}
	}
	if len(all) == 0 {
		return
	}
	ref := all[o.pick%uint64(len(all))]
	s.clock.start(r.scope, func(*proc) {
		_ = r.emit(ref, &journaletv1.StorageExceeded{Uid: ref.ID, UsedBytes: 2, LimitBytes: 1, // it does not fail
			Message: "Pod ephemeral local storage usage exceeds the total limit of containers 1. "})
	})
}

// objects plans changes of objects, mounts that hang, and limits that are exceeded.
func (p *Plan) objects(r *rand.Rand) {
	for at := between(r, 0, time.Minute); at < p.end; at += between(r, time.Second, time.Minute) {
		p.Ops = append(p.Ops, Op{At: at, Kind: "an object changes", pick: r.Uint64()})
	}
	if chance(r, 4) {
		p.Ops = append(p.Ops, Op{At: between(r, 0, p.end), Kind: "mounts hang", lasts: between(r, time.Second, time.Minute)})
	}
	for range r.IntN(12) / 9 {
		p.Ops = append(p.Ops, Op{At: between(r, time.Minute, p.end), Kind: "storage is exceeded", pick: r.Uint64()})
	}
}

// objectsIn returns the volumes and the environment of a pod that refer to objects, as JSON; most pods have none.
func objectsIn(r *rand.Rand) (volumes, env []string) {
	if !chance(r, 3) {
		return nil, nil
	}
	optional := func() string { return pick(r, "", "", `,"optional":true`) }
	n := r.IntN(2)
	if chance(r, 2) {
		volumes = append(volumes, fmt.Sprintf(`{"name":"conf","configMap":{"name":"conf%d"%s}}`, n, optional()))
	}
	if chance(r, 2) {
		volumes = append(volumes, fmt.Sprintf(`{"name":"keys","secret":{"secretName":"keys%d"%s}}`, n, optional()))
	}
	if chance(r, 2) {
		env = append(env, fmt.Sprintf(`{"name":"CONF","valueFrom":{"configMapKeyRef":{"name":"conf%d","key":"key"%s}}}`,
			1-n, optional()))
	}
	if chance(r, 3) {
		env = append(env, fmt.Sprintf(`{"name":"KEY","valueFrom":{"secretKeyRef":{"name":"keys%d","key":"key"%s}}}`,
			1-n, optional()))
	}
	return volumes, env
}
