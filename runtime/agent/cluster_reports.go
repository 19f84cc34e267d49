package agent

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cluster/client"
	"github.com/journalet/journalet/runtime/cluster/events"
	"github.com/journalet/journalet/runtime/cluster/mirror"
	"github.com/journalet/journalet/runtime/cluster/podstatus"
	"github.com/journalet/journalet/runtime/host"
)

// reportTimeout bounds the wait for an actor whose state is reported to the API server.
const reportTimeout = 2 * time.Second

// podObjects are the newest objects of this node's pods at the API server.
type podObjects interface {
	Get(uid types.UID) *corev1.Pod
	Listed() bool
}

// reports are the drivers that report pods to the API server: their status, mirror pods and events.
type reports struct {
	a      *agent
	client *client.Client
	// objects is set before the drivers run.
	objects podObjects
	status  *podstatus.Driver
	mirrors *mirror.Driver
	events  *events.Driver
}

// noObjects are the objects of an API server that nobody watches.
type noObjects struct{}

// Get returns nil.
func (noObjects) Get(types.UID) *corev1.Pod { return nil }

// Listed returns false.
func (noObjects) Listed() bool { return false }

func (a *agent) newReports(cl *client.Client, synced func(time.Duration)) *reports {
	r := &reports{a: a, client: cl, objects: noObjects{}}
	r.status = podstatus.New(podstatus.Options{
		Desired: r.desired, Object: func(uid string) *corev1.Pod { return r.objects.Get(types.UID(uid)) },
		Mirror: func(static *corev1.Pod) *corev1.Pod { return r.mirrors.Mirror(static) },
		Pods:   a.podUIDs,
		Listed: func() bool { return r.objects.Listed() }, Inspected: func(uid string) bool { return a.pleg.Inspected(uid) },
		Patch: func(ctx context.Context, namespace, name string, patch []byte) (*corev1.Pod, error) {
			return client.Patch(ctx, cl, client.Pods, namespace, name, types.StrategicMergePatchType, patch, "status")
		},
		Delete: r.delete, Turn: cl.Turn, Returned: cl.Returned,
		Synced: synced,
		Deleted: func(f *journaletv1.ApiDeleteFinished) {
			a.host.Outcome(messages.Pod(f.GetUid()), messages.NewEvent(f))
		},
		Log: a.log,
	})
	r.mirrors = mirror.New(mirror.Options{
		NodeName: a.facts.NodeName, Static: r.static, Orphan: a.orphanName,
		Object: func(uid types.UID) *corev1.Pod { return r.objects.Get(uid) },
		Create: func(ctx context.Context, p *corev1.Pod) (*corev1.Pod, error) {
			return client.Create(ctx, cl, client.Pods, p.Namespace, p)
		},
		Delete: r.delete, Changed: r.status.Seen, Log: a.log,
	})
	r.events = events.New(events.Options{
		NodeName: a.facts.NodeName, RootDir: a.cfg.RootDir, HostIPs: a.facts.HostIPs,
		Manifest: func(digest string) (*corev1.Pod, error) {
			ctx, cancel := context.WithTimeout(context.Background(), reportTimeout)
			defer cancel()
			return a.manifests.Get(ctx, digest)
		},
		Create: func(ctx context.Context, e *corev1.Event) error {
			_, err := client.Create(ctx, cl.Events(), client.Events, e.Namespace, e)
			return err
		},
		Patch: func(ctx context.Context, namespace, name string, patch []byte) error {
			_, err := client.Patch(ctx, cl.Events(), client.Events, namespace, name, types.MergePatchType, patch)
			return err
		},
		Read: func(ctx context.Context, from, to uint64, f func(*journaletv1.Record) error) error {
			return a.bus.Journal().Read(ctx, from, to, "", func(rec *journaletv1.Record, _ int) error { return f(rec) })
		},
		Returned: cl.Returned, Last: func() uint64 { return a.bus.Opening().Last }, Log: a.log,
	})
	return r
}

// podUIDs returns the UIDs of all pods of the node.
func (a *agent) podUIDs() []string {
	var all []string
	for _, ref := range a.host.Refs(journaletv1.ActorKind_ACTOR_KIND_POD) {
		all = append(all, ref.ID)
	}
	return all
}

func (r *reports) delete(ctx context.Context, namespace, name string, uid types.UID) error {
	return client.Delete(ctx, r.client, client.Pods, namespace, name, metav1.DeleteOptions{
		GracePeriodSeconds: new(int64), Preconditions: metav1.NewUIDPreconditions(string(uid)),
	})
}

// changed reports a change of a pod, or of a mirror pod, that the watch has shown. It does not block.
func (r *reports) changed(uid types.UID, isMirror bool) {
	switch {
	case uid == "":
		r.mirrors.Listed()
	case isMirror:
		r.mirrors.Seen(uid)
	default:
		r.status.Seen(string(uid))
		r.a.gates.Changed(string(uid))
	}
}

// inspect calls f with the actor of a pod, if there is one. It returns when f has.
func (r *reports) inspect(ctx context.Context, uid string, f func(*pod.Actor)) error {
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	err := r.a.host.InspectCurrent(ctx, messages.Pod(uid), func(d actors.Decider) { f(d.(*pod.Actor)) })
	if errors.Is(err, host.ErrNoActor) {
		return nil
	}
	return err
}

// desired returns what is to be reported of a pod.
func (r *reports) desired(ctx context.Context, uid string) (podstatus.Desired, error) {
	on := r.a.nodeView()
	out := make(chan podstatus.Desired, 1)
	err := r.inspect(ctx, uid, func(actor *pod.Actor) {
		if d, ok := podstatus.DesiredOf(actor, on); ok {
			out <- d
		}
	})
	if err != nil {
		return podstatus.Desired{}, err
	}
	select {
	case d := <-out:
		return d, nil
	default:
		return podstatus.Desired{}, podstatus.ErrNoPod
	}
}

// static returns a static pod that is to have a mirror pod.
func (r *reports) static(ctx context.Context, uid string) (mirror.Static, error) {
	type answer struct {
		mirror.Static
		error
	}
	on := r.a.nodeView()
	out := make(chan answer, 1)
	err := r.inspect(ctx, uid, func(actor *pod.Actor) {
		s, err := mirror.StaticOf(actor, on)
		out <- answer{s, err}
	})
	if err != nil {
		return mirror.Static{}, err
	}
	select {
	case got := <-out:
		if got.Pod != nil {
			r.a.manifests.Whole(ctx, got.Digest, got.Pod)
		}
		return got.Static, got.error
	default:
		return mirror.Static{}, mirror.ErrNoPod
	}
}
