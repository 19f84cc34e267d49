package fold

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// fewPods and manyPods are the node sizes for the cost of an event.
const (
	fewPods  = 100
	manyPods = 1000
)

// maxGrowth bounds the cost of an event with manyPods relative to fewPods. The cost is allocations, which do not depend
// on the machine's load; linear growth would be ten
const maxGrowth = 1.2

// busyNode is a core with the real deciders and a runtime whose calls succeed at once.
type busyNode struct {
	tb    testing.TB
	core  *Core
	now   time.Time
	taken int
	// pods are the manifests by digest. Each has a host port of its own.
	pods map[string]*corev1.Pod
	// intents are the requested calls that are not performed yet, seen the last observation of each pod.
	intents   map[string]*call
	seen      map[string]*journaletv1.PodObserved
	performed int
	// due are the dispatched calls that are not performed yet.
	due []string
	// hangs are pods whose calls are never performed.
	hangs map[string]bool
}

type call struct {
	requester messages.Ref
	req       *journaletv1.CallRequested
}

// newBusyNode returns a node with n running pods, each from a file of its own.
func newBusyNode(tb testing.TB, n int) *busyNode {
	d := &busyNode{
		tb: tb, now: time.Unix(1_700_000_000, 0), pods: map[string]*corev1.Pod{}, intents: map[string]*call{},
		seen: map[string]*journaletv1.PodObserved{}, hangs: map[string]bool{},
	}
	d.core = NewCore(AllDeciders, func(digest string) (*corev1.Pod, error) { return d.manifest(digest), nil }, 1)
	d.put(messages.Agent, messages.NewEvent(&journaletv1.AgentStarted{
		Epoch:  1,
		Config: &journaletv1.AgentConfig{NodeName: "n", StartConcurrency: 8, StopConcurrency: 8, PullConcurrency: 8},
	}))
	d.put(messages.Runtime, messages.NewEvent(&journaletv1.RuntimeHealthChanged{RuntimeReady: true, NetworkReady: true}))
	for i := range n {
		d.add(fmt.Sprintf("uid-%05d", i))
	}
	return d
}

func (d *busyNode) manifest(digest string) *corev1.Pod {
	if d.pods[digest] == nil {
		d.pods[digest] = &corev1.Pod{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyAlways, TerminationGracePeriodSeconds: new(int64),
			Containers: []corev1.Container{{
				Name: "main", Image: "registry.example/app:1", ImagePullPolicy: corev1.PullIfNotPresent,
				Ports: []corev1.ContainerPort{{ContainerPort: 80, HostPort: int32(10_000 + len(d.pods))}},
			}},
		}}
	}
	return d.pods[digest]
}

// put records a fact and performs all resulting calls.
func (d *busyNode) put(about messages.Ref, e *journaletv1.Event) {
	d.putOnly(about, e)
	for len(d.due) > 0 {
		id := d.due[0]
		d.due = d.due[1:]
		if !d.hangs[d.intents[id].req.GetPodUid()] {
			d.perform(id)
		}
	}
}

// trouble keeps the neighbours busy: half of them wait in back-off, and some of their calls hang, in each lane.
func (d *busyNode) trouble(n int) {
	for i := range n {
		uid := fmt.Sprintf("uid-%05d", i)
		if i == quietPod {
			continue
		}
		if i%2 == 0 {
			d.change(uid, func(o *journaletv1.PodObserved) { d.end(o.Containers[len(o.Containers)-1]) })
		}
		if i < 4 {
			d.hangs[uid] = true
			d.read(&journaletv1.ManifestFile{Path: uid + ".yaml"})
		}
	}
}

func (d *busyNode) putOnly(about messages.Ref, e *journaletv1.Event) {
	if err := d.core.Put(d.now, about, e); err != nil {
		d.tb.Fatal(err)
	}
	for ; d.taken < len(d.core.Records()); d.taken++ {
		rec := d.core.Records()[d.taken]
		author := messages.RefOf(rec.GetActor())
		for i, e := range rec.GetStep().GetDecisions() {
			if k := e.GetCallRequested(); k != nil {
				d.intents[messages.DecisionID(rec.GetEpoch(), rec.GetStep().GetCause(), author, i)] = &call{author, k}
			}
			if k := e.GetCallDispatched(); k != nil {
				d.due = append(d.due, k.GetIntentId())
			}
		}
	}
}

func (d *busyNode) read(f *journaletv1.ManifestFile) {
	d.put(messages.Source(messages.FileSource), messages.NewEvent(&journaletv1.ManifestsRead{Source: messages.FileSource,
		Changed: []*journaletv1.ManifestFile{f}, Synced: true}))
}

func (d *busyNode) add(uid string) {
	d.seen[uid] = &journaletv1.PodObserved{Uid: uid}
	d.read(&journaletv1.ManifestFile{Path: uid + ".yaml", Pods: []*journaletv1.PodRef{
		{Uid: uid, Namespace: "default", Name: uid, Digest: "sha256:" + uid},
	}})
	if got := d.seen[uid].GetContainers(); len(got) != 1 ||
		got[0].GetState() != journaletv1.ContainerState_CONTAINER_STATE_RUNNING {
		d.tb.Fatalf("pod %s is not running: %v", uid, d.seen[uid])
	}
}

func (d *busyNode) remove(uid string) {
	d.read(&journaletv1.ManifestFile{Path: uid + ".yaml"})
	if d.core.Decider(messages.Pod(uid)) != nil {
		d.tb.Fatalf("pod %s is not forgotten: %v", uid, d.core.Decider(messages.Pod(uid)).State())
	}
}

// exit ends the main process of a pod some time after its start.
func (d *busyNode) exit(uid string, after time.Duration) {
	d.now = d.now.Add(after)
	before := d.performed
	d.change(uid, func(o *journaletv1.PodObserved) {
		for _, c := range o.GetContainers() {
			if c.GetState() == journaletv1.ContainerState_CONTAINER_STATE_RUNNING {
				d.end(c)
			}
		}
	})
	if d.performed == before {
		d.tb.Fatalf("pod %s was not restarted", uid)
	}
}

func (d *busyNode) end(c *journaletv1.ContainerObservation) {
	c.State, c.FinishedAt, c.ExitCode = journaletv1.ContainerState_CONTAINER_STATE_EXITED, timestamppb.New(d.now), 1
}

// change changes the observation of a pod and records it.
func (d *busyNode) change(uid string, f func(*journaletv1.PodObserved)) {
	d.put(messages.Pod(uid), d.changed(uid, f))
}

func (d *busyNode) changed(uid string, f func(*journaletv1.PodObserved)) *journaletv1.Event {
	o := proto.CloneOf(d.seen[uid])
	f(o)
	d.now = d.now.Add(time.Millisecond)
	o.ObservedAt = timestamppb.New(d.now)
	d.seen[uid] = o
	return messages.NewEvent(o)
}

// perform performs a call and records its outcome, then the observation.
func (d *busyNode) perform(id string) {
	c := d.intents[id]
	delete(d.intents, id)
	d.performed++
	out := &journaletv1.CallFinished{IntentId: id, Requester: c.requester.String()}
	created := fmt.Sprintf("id-%d", d.performed)
	var f func(*journaletv1.PodObserved)
	switch k := c.req.GetWork().(type) {
	case *journaletv1.CallRequested_RunSandbox:
		out.SandboxId = created
		f = func(o *journaletv1.PodObserved) {
			o.Sandboxes = append(o.Sandboxes, &journaletv1.SandboxObservation{
				Id: created, Attempt: k.RunSandbox.GetAttempt(), State: journaletv1.SandboxState_SANDBOX_STATE_READY,
				CreatedAt: timestamppb.New(d.now), IntentId: id, Ips: []string{"10.0.0.1"},
			})
		}
	case *journaletv1.CallRequested_StartContainer:
		out.ContainerId, out.SandboxId = created, k.StartContainer.GetSandboxId()
		f = func(o *journaletv1.PodObserved) {
			// As in the agent, only the newest dead container is kept.
			if n := len(o.Containers); n > 1 {
				o.Containers = o.Containers[n-1:]
			}
			o.Containers = append(o.Containers, &journaletv1.ContainerObservation{
				Id: created, Name: "main", Attempt: k.StartContainer.GetAttempt(), SandboxId: k.StartContainer.GetSandboxId(),
				State: journaletv1.ContainerState_CONTAINER_STATE_RUNNING, CreatedAt: timestamppb.New(d.now),
				StartedAt: timestamppb.New(d.now), IntentId: id,
				Hash: pod.ContainerHash(&d.manifest(k.StartContainer.GetDigest()).Spec.Containers[0]),
			})
		}
	case *journaletv1.CallRequested_StopContainer:
		f = func(o *journaletv1.PodObserved) { d.end(o.Containers[len(o.Containers)-1]) }
	case *journaletv1.CallRequested_StopSandbox:
		f = func(o *journaletv1.PodObserved) {
			o.Sandboxes[0].State = journaletv1.SandboxState_SANDBOX_STATE_NOT_READY
		}
	case *journaletv1.CallRequested_RemoveSandbox:
		f = func(o *journaletv1.PodObserved) { o.Sandboxes, o.Containers = nil, nil }
	}
	d.putOnly(c.requester, messages.NewEvent(out))
	if f != nil {
		d.putOnly(messages.Pod(c.req.GetPodUid()), d.changed(c.req.GetPodUid(), f))
	}
}

// quietPod is the pod that events happen to; its neighbours may be in trouble.
const quietPod = 50

// events happen to one of many pods. Each leaves the node as it was.
var events = []struct {
	name string
	do   func(d *busyNode)
}{
	{"restart", func(d *busyNode) { d.exit("uid-00050", time.Hour) }},
	{"lifecycle", func(d *busyNode) { d.add("uid-x"); d.remove("uid-x") }},
	{"observation", func(d *busyNode) {
		d.change("uid-00050", func(o *journaletv1.PodObserved) {
			o.Sandboxes[0].Ips = []string{fmt.Sprintf("10.0.0.%d", d.now.UnixMilli()%250)}
		})
	}},
	{"probe", func(d *busyNode) {
		o := d.seen["uid-00050"]
		d.put(messages.Pod("uid-00050"), messages.NewEvent(&journaletv1.ProbeResult{
			Uid: "uid-00050", Container: "main", ContainerId: o.GetContainers()[len(o.GetContainers())-1].GetId(),
		}))
	}},
	{"runtime", func(d *busyNode) {
		for _, ready := range []bool{false, true} {
			d.put(messages.Runtime, messages.NewEvent(&journaletv1.RuntimeHealthChanged{
				RuntimeReady: ready, NetworkReady: ready,
			}))
		}
	}},
}

// BenchmarkEvent measures one event of one pod with all resulting records, on nodes of different sizes:
// go test -run '^$' -bench BenchmarkEvent -benchmem ./runtime/fold
func BenchmarkEvent(b *testing.B) {
	for _, e := range events {
		for _, n := range []int{fewPods, manyPods} {
			b.Run(fmt.Sprintf("%s/pods=%d", e.name, n), func(b *testing.B) {
				d := newBusyNode(b, n)
				e.do(d)
				before := len(d.core.Records())
				b.ReportAllocs()
				b.ResetTimer()
				for range b.N {
					e.do(d)
				}
				records := float64(len(d.core.Records())-before) / float64(b.N)
				b.ReportMetric(records, "records/op")
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/records, "ns/record")
			})
		}
	}
}

func TestCostOfAnEventDoesNotDependOnTheNumberOfPods(t *testing.T) {
	const rounds = 50
	cost := func(n int, troubled bool, do func(*busyNode)) (bytes, allocs float64) {
		d := newBusyNode(t, n)
		if troubled {
			d.trouble(n)
		}
		do(d)
		// The growth of the journal does not count.
		d.core.records = append(make([]*journaletv1.Record, 0, len(d.core.records)+rounds*100), d.core.records...)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range rounds {
			do(d)
		}
		runtime.ReadMemStats(&after)
		return float64(after.TotalAlloc-before.TotalAlloc) / rounds, float64(after.Mallocs-before.Mallocs) / rounds
	}
	for i := range 2 * len(events) {
		e, troubled := events[i/2], i%2 == 1
		t.Run(fmt.Sprintf("%s, neighbours in trouble %v", e.name, troubled), func(t *testing.T) {
			fewBytes, fewAllocs := cost(fewPods, troubled, e.do)
			manyBytes, manyAllocs := cost(manyPods, troubled, e.do)
			t.Logf("%d pods: %.0f bytes, %.0f allocations; %d pods: %.0f, %.0f",
				fewPods, fewBytes, fewAllocs, manyPods, manyBytes, manyAllocs)
			if manyBytes > maxGrowth*fewBytes || manyAllocs > maxGrowth*fewAllocs {
				t.Errorf("%d pods: %.2f times the bytes and %.2f times the allocations of %d pods: the cost depends on all pods",
					manyPods, manyBytes/fewBytes, manyAllocs/fewAllocs, fewPods)
			}
		})
	}
}
