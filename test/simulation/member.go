package simulation

import (
	"context"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	coordinationv1 "k8s.io/api/coordination/v1"

	nodeactor "github.com/journalet/journalet/actors/node"
	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cluster/client"
	"github.com/journalet/journalet/runtime/cluster/events"
	"github.com/journalet/journalet/runtime/cluster/mirror"
	"github.com/journalet/journalet/runtime/cluster/node"
	"github.com/journalet/journalet/runtime/cluster/podstatus"
	"github.com/journalet/journalet/runtime/drivers"
	"github.com/journalet/journalet/runtime/source/api"
)

// member is the half of a run that makes the node a member of a cluster. The drivers are the real ones, as
// runtime/agent puts them together, on coroutines. Their requests, and client-go's Reflectors, are models
// (apiserver_requests.go).
type member struct {
	run   *run
	noise *rand.Rand

	contact *client.Contact
	pods    *api.Driver
	status  *podstatus.Driver
	mirrors *mirror.Driver
	events  *events.Driver
	node    *node.Driver
	names   *nameQueue
	// reads is what reads lists and watches of pods, nil: they need not be read.
	reads *client.Reader[corev1.Pod]

	// working counts the workers of the status driver, due is when it has work again.
	working int
	due     *event
	// These coroutines wait for something to do.
	reporter, source, deriver, sender, keeper waiter
}

// view is the node's part of pods' statuses.
var view = pod.Node{RuntimeName: "sim", HostIPs: []string{"192.0.2.1"}}

func newMember(r *run) *member {
	m := &member{run: r, noise: stream(r.seed, "member of the cluster", r.name())}
	m.names, m.reads = newNameQueue(r), newPodReader(r)
	m.contact = client.NewContact(func(_ context.Context, c *journaletv1.ApiServerContact) error {
		return r.emit(messages.Agent, c)
	}, r.clock.Now)
	m.pods = api.New(api.Options{
		ListWatch: &cache.ListWatch{}, Store: m.store, Prime: r.manifests.prime, Clock: driverClock{r.clock, r},
		Sink: func(_ context.Context, f *journaletv1.ManifestsRead) error {
			return r.emit(messages.Source(messages.APISource), f)
		},
		Changed: m.podChanged, Log: defects(r),
	})
	m.status = podstatus.New(podstatus.Options{
		Desired: func(_ context.Context, uid string) (podstatus.Desired, error) {
			a, err := m.actor(uid)
			if err != nil {
				return podstatus.Desired{}, err
			}
			if a != nil {
				if d, ok := podstatus.DesiredOf(a, view); ok {
					return d, nil
				}
			}
			return podstatus.Desired{}, podstatus.ErrNoPod
		},
		Object: func(uid string) *corev1.Pod { return m.pods.Pods().Get(types.UID(uid)) },
		Listed: func() bool { return m.pods.Pods().Listed() }, Inspected: r.watcher.Inspected,
		Mirror: func(static *corev1.Pod) *corev1.Pod { return m.mirrors.Mirror(static) },
		Patch: func(_ context.Context, namespace, name string, patch []byte) (out *corev1.Pod, err error) {
			n := podName{Namespace: namespace, Name: name}
			sent := m.knownAt(n)
			r.tenants.sendsPatch(r.api.pods[n])
			err = m.request("patch", func(a *apiServer) (err error) {
				out, err = a.patchStatus(n, patch, sent)
				return err
			})
			r.api.books.answered(out, err)
			return out, err
		},
		Delete: m.delete, Now: r.clock.Now, Jitter: m.noise.Int64N, Log: defects(r),
		Monotonic: m.monotonic,
		Deleted: func(f *journaletv1.ApiDeleteFinished) {
			r.outcome(messages.Pod(f.GetUid()), messages.NewEvent(f))
		},
	})
	m.newMirrors()
	m.newEvents()
	m.newNode()
	return m
}

// patchSent is what the agent knows of a pod when it sends a patch of its status.
type patchSent struct {
	// shown is the version that the watch has shown last, 0 for none.
	shown int64
	// runs: an inspection has shown a container that still runs.
	runs bool
}

func (m *member) knownAt(n podName) (sent patchSent) {
	is := m.run.api.pods[n]
	if is == nil {
		return sent
	}
	if p := m.pods.Pods().Get(is.UID); p != nil {
		sent.shown = versionOf(p)
	}
	sent.runs = m.run.judge.runningOf(is) != ""
	return sent
}

func (m *member) newMirrors() {
	m.mirrors = mirror.New(mirror.Options{
		NodeName: nodeName, Queue: m.names, Now: m.monotonic,
		Static: func(_ context.Context, uid string) (mirror.Static, error) {
			a, err := m.actor(uid)
			if err != nil {
				return mirror.Static{}, err
			}
			if a != nil {
				return mirror.StaticOf(a, view)
			}
			return mirror.Static{}, mirror.ErrNoPod
		},
		Orphan: func(_ context.Context, name podName) bool {
			on := m.run.cells.Decider(messages.Node).(*nodeactor.Actor)
			return on.AllSynced() && !on.KeptOut(name.String())
		},
		Object: func(uid types.UID) *corev1.Pod { return m.pods.Pods().Get(uid) },
		Create: func(_ context.Context, p *corev1.Pod) (out *corev1.Pod, err error) {
			return out, m.request("create", func(a *apiServer) (err error) {
				out, err = a.createMirror(p)
				return err
			})
		},
		Delete: m.delete, Changed: m.seen,
	})
}

// monotonic returns a time that does not follow when the clock is set, as intervals of Go's clock do not.
func (m *member) monotonic() time.Time { return time.Time{}.Add(time.Hour + m.run.clock.uptime) }

func (m *member) newEvents() {
	r := m.run
	m.events = events.New(events.Options{
		NodeName: nodeName, Manifest: r.manifests.get, Cursor: cursor{r.api}, Clock: driverClock{r.clock, r},
		Last: func() uint64 { return uint64(len(r.journal.stored)) },
		Create: func(_ context.Context, e *corev1.Event) error {
			return m.refused(e, m.request("create", func(a *apiServer) error { return a.createEvent(e) }))
		},
		Patch: func(_ context.Context, namespace, name string, patch []byte) error {
			return m.request("patch", func(a *apiServer) error {
				return a.patchEvent(podName{Namespace: namespace, Name: name}, patch)
			})
		},
		Read: func(_ context.Context, from, to uint64, f func(*journaletv1.Record) error) error {
			for _, rec := range r.journal.stored[from-1 : to] {
				if err := f(rec); err != nil {
					return err
				}
			}
			return nil
		},
	})
}

// How often the Node's status and its Lease are renewed (the kubelet's defaults).
const (
	updateEvery = 10 * time.Second
	reportEvery = 5 * time.Minute
	leaseLasts  = 40 * time.Second
)

func (m *member) newNode() {
	r := m.run
	amount := func(n int64) resource.Quantity { return *resource.NewQuantity(n, resource.BinarySI) }
	m.node = node.New(node.Options{
		Requests: nodeRequests{m}, BootID: r.bootID(), Register: true, RegisterDeleted: true,
		Settings: node.Settings{
			Name: nodeName, Version: "simulation", Addresses: view.HostIPs, MaxImages: 5,
			Machine: node.Machine{Architecture: "simulated"},
			Capacity: corev1.ResourceList{
				corev1.ResourceCPU:    *resource.NewMilliQuantity(r.config.cpu, resource.DecimalSI),
				corev1.ResourceMemory: amount(r.config.memory),
			},
		},
		Update: updateEvery, Report: reportEvery, Lease: leaseLasts, Now: r.clock.Now, Monotonic: m.monotonic,
		Random: stream(r.seed, "reports of the Node", r.name()).Float64, Log: discard,
		Runtime: func(context.Context) node.Runtime {
			out := node.Runtime{Name: runtimeName}
			if !r.world.up {
				out.Problem = "unavailable"
			} else if !r.world.networkReady {
				out.NetworkProblem = "cni plugin not initialized"
			}
			return out
		},
		Sink: func(_ context.Context, fact proto.Message) error { return r.emit(messages.Node, fact) },
	})
}

// inspectTimeout bounds the wait for an actor whose state is reported (runtime/agent: reportTimeout).
const inspectTimeout = 2 * time.Second

// actor returns the actor of a pod, nil for none. As host.InspectCurrent it waits on the present coroutine until the
// actor has handled the records that are queued for it now.
func (m *member) actor(uid string) (*pod.Actor, error) {
	cells, ref, p := m.run.cells, messages.Pod(uid), m.run.clock.current
	var last uint64
	cells.Pending(ref, func(rec *journaletv1.Record) { last = rec.GetSeq() })
	end := p.clock.uptime + inspectTimeout
	for pause := time.Millisecond; cells.Handled(ref) < last && cells.Decider(ref) != nil; pause *= 2 {
		if p.clock.uptime >= end {
			return nil, context.DeadlineExceeded
		}
		p.sleep(min(pause, end-p.clock.uptime))
	}
	a, _ := cells.Decider(ref).(*pod.Actor)
	return a, nil
}

func (m *member) delete(_ context.Context, namespace, name string, uid types.UID) error {
	return m.request("delete", func(a *apiServer) error {
		n := podName{Namespace: namespace, Name: name}
		a.books.deleted(a.sim, a.pods[n], uid)
		return a.deletePod(n, uid, 0)
	})
}

// podChanged does what runtime/agent does when the watch shows a pod. It is called with a lock held.
func (m *member) podChanged(uid types.UID, isMirror bool) {
	switch {
	case uid == "":
		m.mirrors.Listed()
	case isMirror:
		m.mirrors.Seen(uid)
	default:
		m.run.clock.after(m.run.scope, 0, func() { m.seen(string(uid)) })
	}
	m.source.wake()
}

func (m *member) seen(uid string) {
	m.status.Seen(uid)
	m.serveStatus()
}

// serveStatus does what Run of the status driver does.
func (m *member) serveStatus() {
	for m.working < podstatus.Workers {
		work, wait := m.status.Next()
		if work == nil {
			if m.due.cancel(); wait > 0 {
				m.due = m.run.clock.after(m.run.scope, wait, m.serveStatus)
			}
			return
		}
		m.working++
		m.run.clock.start(m.run.scope, func(*proc) {
			work(context.Background())
			m.working--
			m.serveStatus()
		})
	}
}

// drivers returns the drivers. Each wakes its coroutine after a record.
func (m *member) drivers() []drivers.Driver {
	return []drivers.Driver{
		m.pods, m.mirrors, apiNode{m.node, m}, apiStatuses{m.status, m}, apiEvents{m.events, m},
	}
}

type (
	apiNode struct {
		*node.Driver
		m *member
	}
	apiStatuses struct {
		*podstatus.Driver
		m *member
	}
	apiEvents struct {
		*events.Driver
		m *member
	}
)

// Stored implements drivers.Storer, as do the methods below.
func (d apiNode) Stored(rec *journaletv1.Record) {
	d.Driver.Stored(rec)
	d.m.keeper.wake()
}

func (d apiStatuses) Stored(rec *journaletv1.Record) {
	d.Driver.Stored(rec)
	d.m.serveStatus()
}

func (d apiEvents) Stored(rec *journaletv1.Record) {
	d.Driver.Stored(rec)
	d.m.deriver.wake()
}

// start starts the drivers.
func (m *member) start() {
	if m == nil {
		return
	}
	begin := func(f func(*proc)) { m.run.clock.start(m.run.scope, f) }
	ctx := context.Background()
	begin(func(p *proc) { m.reflect(p, false, m.pods.Store(), m.source.wake) })
	begin(func(p *proc) { m.reflect(p, true, m.node.Store(), m.keeper.wake) })
	begin(func(p *proc) { m.reporter.serve(p, func() { _ = m.contact.Report(ctx) }) }) // the sink does not fail
	begin(func(p *proc) { m.source.serve(p, func() { _ = m.pods.HandOver(ctx) }) })    // neither
	begin(func(*proc) { _ = m.mirrors.Run(ctx) })                                      // it ends with its run
	begin(func(p *proc) {
		m.events.CatchUp(ctx)
		m.sender.wake()
		m.deriver.serve(p, func() { m.events.Derive(); m.sender.wake() })
	})
	begin(func(p *proc) {
		m.sender.serve(p, func() {
			for m.events.Send(ctx) {
			}
			p.sleep(time.Second)
			m.events.Save()
		})
	})
	begin(m.keepNode)
	begin(m.keepLease)
	begin(m.keepCSINode)
	begin(m.keepCertificate)
}

// contactChanged has a change of the contact be reported.
func (m *member) contactChanged() { m.reporter.wake() }

// keepNode does what Run of the Node driver does.
func (m *member) keepNode(p *proc) {
	const least, most = 100 * time.Millisecond, 7 * time.Second
	for m.keeper.p, m.keeper.due = p, true; ; {
		wait, err := m.node.Step(context.Background())
		for pause := least; err != nil; pause = min(2*pause, most) {
			p.sleep(pause)
			wait, err = m.node.Step(context.Background())
		}
		if !m.keeper.due && wait > 0 {
			m.keeper.sleep(wait)
		}
		m.keeper.due = false
		p.sleep(time.Millisecond)
	}
}

func (m *member) keepLease(p *proc) {
	var last *coordinationv1.Lease
	for {
		pause := between(m.noise, leaseLasts/4, leaseLasts/4+400*time.Millisecond)
		switch next, err := m.node.Renew(context.Background(), last); {
		case err == nil && next == nil:
			pause = 100 * time.Millisecond
			if m.node.Node() == nil {
				pause = time.Second
			}
		case err == nil:
			last = next
		case last == nil:
			pause = between(m.noise, 200*time.Millisecond, 7*time.Second)
		}
		p.sleep(pause)
	}
}

func (m *member) keepCSINode(p *proc) {
	var done types.UID
	for {
		pause := time.Second
		if n := m.node.Node(); n != nil {
			pause = time.Minute
			if n.UID != done {
				pause = between(m.noise, 100*time.Millisecond, 7*time.Second)
				if m.node.CSINode(context.Background(), n) == nil {
					done, pause = n.UID, time.Minute
					m.keeper.wake()
				}
			}
		}
		p.sleep(pause)
	}
}

// refused notes a refusal after which an event is not sent again, as with the kubelet.
func (m *member) refused(e *corev1.Event, err error) error {
	if apierrors.IsUnauthorized(err) || apierrors.IsForbidden(err) || apierrors.IsConflict(err) {
		m.run.api.books.closed[string(e.InvolvedObject.UID)] = true
	}
	return err
}
