package simulation

import (
	"context"
	"net/http"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/actors/resources"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/calls"
	"github.com/journalet/journalet/runtime/cri"
	"github.com/journalet/journalet/runtime/dra"
	"github.com/journalet/journalet/runtime/plugins/devices"
	"github.com/journalet/journalet/runtime/pod/subpath"
)

// performer performs calls with the works of the agent. Two parts are models: what the agent writes to the node's disk,
// and pulls, which runtime/cri makes on goroutines that report progress.
type performer struct {
	*calls.Works
	runtime *cri.Driver
	run     *run
	// calls holds the calls under way, by their coroutine.
	calls map[*proc]*call
}

// call is one intent under way.
type call struct {
	req    *journaletv1.CallRequested
	intent string
	// once is set if it creates or starts a container that may run only once.
	once bool
	// listed is the uptime at which it listed the pod's sandboxes last, or at which it began.
	listed time.Duration
	// began is the uptime at which it began.
	began time.Duration
}

func newPerformer(r *run) *performer {
	f := &performer{run: r, calls: map[*proc]*call{}}
	o := cri.Options{
		Conn: criConn{r}, Owner: r.owner(), Hash: pod.ContainerHash, Volumes: disk{f}, Clock: newSteadyClock(r),
		Objects: r.things, Stat: func(string) (os.FileInfo, error) { return nil, nil },
		ContainerLogDir: "/dev/null/no links to logs",
		Network:         cri.Network{HostsFile: "testdata/hosts", HostIPs: []string{"192.0.2.1"}},
		HTTP: func(req *http.Request) error {
			c := f.current()
			return r.execute(req.Context(), r.world.container(c.req.GetRunHook().GetContainerId()), c.req.GetRunHook())
		},
	}
	f.runtime = cri.New(o)
	var claims dra.Worker
	if r.claims != nil {
		claims.Claims = r.claims
	}
	f.Works = calls.NewWorks(calls.WorksOptions{
		Manifest: func(_ context.Context, digest string) (*corev1.Pod, error) { return r.manifests.get(digest) },
		Clock:    o.Clock, Log: defects(r),
	}, f.runtime, devices.Worker{Plugins: r.plugins}, claims)
	return f
}

func (f *performer) current() *call { return f.calls[f.run.clock.current] }

// Perform implements calls.Performer.
func (f *performer) Perform(ctx context.Context, intentID, requester string, req *journaletv1.CallRequested,
	inDoubt bool) *journaletv1.CallFinished {
	p, r := f.run.clock.current, f.run
	c := &call{req: req, intent: intentID, once: r.runsOnce(req.GetStartContainer()), listed: r.clock.uptime,
		began: r.clock.uptime}
	f.calls[p] = c
	defer delete(f.calls, p)
	r.judge.callBegins(intentID)
	defer r.judge.callEnds(intentID)
	r.at(c, onceBegins)
	defer r.at(c, onceUnrecorded)
	if k := req.GetRunHook(); k != nil {
		r.judge.hookBegins(r.epoch, k)
		out := f.Works.Perform(ctx, intentID, requester, req, inDoubt)
		r.judge.hookEnds(k, out)
		return out
	}
	if k := req.GetPullImage(); k != nil {
		return f.pull(ctx, &journaletv1.CallFinished{IntentId: intentID, Requester: requester}, k)
	}
	return f.Works.Perform(ctx, intentID, requester, req, inDoubt)
}

// pull pulls an image. It tries again while the runtime is unavailable. What it would send is the driver's.
func (f *performer) pull(
	ctx context.Context, out *journaletv1.CallFinished, k *journaletv1.PullImage,
) *journaletv1.CallFinished {
	r, image := f.run, k.GetImage()
	request, err := f.runtime.PullRequest(ctx, f.Call(out.GetIntentId(), "", false), k)
	if err != nil {
		out.Error, out.Message, out.Retryable = journaletv1.CallError_CALL_ERROR_CONFIG, err.Error(), true
		return out
	}
	r.judge.pulls(k, request)
	for {
		ctx, _ := driverClock{}.WithTimeout(ctx, 30*time.Minute)
		err := r.rpc(ctx, between(r.world.noise, 200*time.Millisecond, 15*time.Second), func(gone bool) error {
			if !r.world.registryUp || r.world.mishap() {
				return failedCall("registry does not answer" + wildText)
			}
			r.world.images[image] = true
			if gone {
				r.world.unawaited[image] = r.clock.uptime
			}
			return nil
		})
		switch {
		case err == nil:
			out.ImageRef = "sha256:" + image
		case isAway(err):
			r.clock.current.sleep(between(r.world.noise, 100*time.Millisecond, 5*time.Second))
			continue
		default:
			out.Error, out.Message, out.Retryable = journaletv1.CallError_CALL_ERROR_REGISTRY_UNAVAILABLE, err.Error(), true
		}
		return out
	}
}

// disk models pods' files on the node: each operation takes some time and fails now and then.
type disk struct{ *performer }

func (d disk) work() error {
	w := d.run.world
	d.run.clock.current.sleep(between(w.noise, time.Millisecond, 10*time.Millisecond))
	if w.mishap() {
		return failedCall("device or resource busy" + wildText)
	}
	return nil
}

// CreateMountPoint implements cri.Volumes, as do the methods below.
func (disk) CreateMountPoint(context.Context, *corev1.Pod, subpath.MountPoint) error { return nil }
func (disk) WriteHosts(string, []byte) (string, error)                               { return "/", nil }
func (disk) Relabels(*corev1.Pod, string) bool                                       { return false }
func (disk) MountSubPath(*corev1.Pod, string, int, string, string) (string, error)   { return "/", nil }

// Path returns where a volume is.
func (d disk) Path(m *corev1.Pod, name string) (string, error) {
	if ofDriver(volumeIn(m, name)) {
		return d.run.storage.Path(string(m.UID), name)
	}
	return "/", nil
}

// containerWork is a call on one container of a pod.
type containerWork interface {
	GetDigest() string
	GetAllocatedDigest() string
	GetContainer() string
}

// specOf returns the manifest of a call's pod with its allocated resources, and the container's spec in it.
func (s *sim) specOf(k containerWork) (*corev1.Pod, *corev1.Container) {
	m := s.manifests.byDigest[k.GetDigest()]
	if allocated := k.GetAllocatedDigest(); allocated != "" {
		m = resources.Allocated(m, s.manifests.byDigest[allocated])
	}
	return m, findSpec(m, k.GetContainer())
}
