package agent

import (
	"context"
	"errors"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/api/monitoring"
	"github.com/journalet/journalet/runtime/host"
	"github.com/journalet/journalet/runtime/pod/volume"
)

// inspectTimeout bounds one inspection of actors.
const inspectTimeout = time.Second

// Bounds of the wait for the pods' actors of one scrape. A pod that hangs takes nothing from the others: each gets
// podTimeout, and shortest when scrapeTimeout has passed. An actor that does not hang answers within microseconds.
const (
	podTimeout    = 100 * time.Millisecond
	scrapeTimeout = time.Second
	shortest      = 5 * time.Millisecond
)

// counts returns the values at the moment of a scrape.
func (a *agent) counts() monitoring.Counts {
	c := monitoring.Counts{
		Actors: map[string]int{}, Containers: map[string]int{}, Desired: map[string]int{"": 0, "true": 0},
		Active: map[string]int{"": 0, "true": 0}, Volumes: map[monitoring.VolumeCount]int{},
		Lagging: a.host.Lagging(), Backlog: a.host.Backlog(),
		Quarantined: len(a.host.Quarantines()),
		Queued:      a.bus.Journal().Queued(),
	}
	o := a.bus.Observers().Fanout()
	c.Observers, c.Waiting, c.Lag, c.Missed, c.Sent = o.Connections, o.Waiting, o.Lag, o.Missed, o.Sent
	a.countStores(&c)
	for kind := range journaletv1.ActorKind_name {
		refs := a.host.Refs(journaletv1.ActorKind(kind))
		if len(refs) > 0 {
			c.Actors[refs[0].KindName()] = len(refs)
		}
	}
	a.countPods(&c)
	if a.cluster == nil {
		c.Mirrors = 0
		return c
	}
	c.Certificates = map[monitoring.CertificateCount]int{}
	for certificate, n := range a.cluster.clusterObjects.objects.Certificates() {
		c.Certificates[monitoring.CertificateCount(certificate)] = n
	}
	return c
}

// countStores adds what the bus holds. A bus that does not answer in time leaves the bytes out.
func (a *agent) countStores(c *monitoring.Counts) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	u, err := a.bus.Usage(ctx)
	if err != nil {
		c.FirstRecord, c.LastRecord = a.bus.Journal().First(), a.bus.Journal().Last()
		return
	}
	c.FirstRecord, c.LastRecord, c.SnapshotsAt = u.First, u.Last, u.SnapshotsAt
	c.Bytes = map[string]uint64{
		"journal": u.JournalBytes, "manifests": u.ManifestsBytes, "snapshots": u.SnapshotsBytes,
	}
}

// countPods adds what the pods' actors show, and how many do not answer.
func (a *agent) countPods(c *monitoring.Counts) {
	end := time.Now().Add(scrapeTimeout)
	for _, ref := range a.host.Refs(journaletv1.ActorKind_ACTOR_KIND_POD) {
		wait := max(min(podTimeout, time.Until(end)), shortest)
		ctx, cancel := context.WithTimeout(context.Background(), wait)
		manifest := a.manifests.Newest(ref.ID)
		err := a.host.Inspect(ctx, ref, func(d actors.Decider) {
			count(c, d.(*pod.Actor).Pod())
			countVolumes(c, d.(*pod.Actor).Pod(), manifest)
		})
		cancel()
		if err != nil && !errors.Is(err, host.ErrNoActor) {
			c.Unanswered++
		}
	}
}

// count adds one pod, with its observed sandboxes and containers.
func count(c *monitoring.Counts, s *journaletv1.PodState) {
	if s.GetPod() != nil && !s.GetOrphan() {
		static := ""
		if s.GetPod().GetApi() == nil {
			static = "true"
		}
		admitted := s.GetStage() > journaletv1.PodStage_POD_STAGE_ADMITTING && !s.GetRejected()
		if !s.GetRemoved() {
			c.Desired[static]++
		}
		if admitted && s.GetStage() < journaletv1.PodStage_POD_STAGE_TERMINATED {
			c.Active[static]++
		}
		if admitted && !s.GetRemoved() && static != "" {
			c.Mirrors++
		}
	}
	for _, x := range s.GetObserved().GetSandboxes() {
		if x.GetState() == journaletv1.SandboxState_SANDBOX_STATE_READY {
			c.RunningPods++
			break
		}
	}
	for _, x := range s.GetObserved().GetContainers() {
		c.Containers[strings.ToLower(strings.TrimPrefix(x.GetState().String(), "CONTAINER_STATE_"))]++
	}
}

// countVolumes adds the volumes of one pod: how many are to be set up, and how many are set up.
func countVolumes(c *monitoring.Counts, s *journaletv1.PodState, m *corev1.Pod) {
	if m == nil || s.GetRejected() {
		return
	}
	up := map[string]bool{}
	for _, r := range s.GetVolumes() {
		up[r.GetName()] = r.GetStage() == journaletv1.VolumeStage_VOLUME_STAGE_SET_UP
	}
	desired := s.GetStage() > journaletv1.PodStage_POD_STAGE_ADMITTING &&
		s.GetStage() < journaletv1.PodStage_POD_STAGE_TERMINATED
	for i := range m.Spec.Volumes {
		v := &m.Spec.Volumes[i]
		plugin := volume.PluginName(v)
		if desired {
			c.Volumes[monitoring.VolumeCount{Plugin: plugin, State: monitoring.DesiredVolumes}]++
		}
		if up[v.Name] {
			c.Volumes[monitoring.VolumeCount{Plugin: plugin, State: monitoring.ActualVolumes}]++
		}
	}
}
