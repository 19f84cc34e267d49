package agent

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"log/slog"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/api/journal"
	"github.com/journalet/journalet/runtime/api/kubelet"
	"github.com/journalet/journalet/runtime/api/local"
	"github.com/journalet/journalet/runtime/api/query"
	"github.com/journalet/journalet/runtime/own"
	"github.com/journalet/journalet/runtime/pod/logs"
)

// sessionTimeout bounds the wait for the record of a session's start. A session that cannot be recorded is logged, and
// takes place: it may be what finds out why the journal stalls.
const sessionTimeout = 2 * time.Second

// serveAPI serves the kubelet server's paths on the unix socket.
func (a *agent) serveAPI(ctx context.Context) error {
	if !a.cfg.EnableServer {
		<-ctx.Done()
		return nil
	}
	l, err := local.Listen(a.cfg.Socket(), a.cfg.APISocketGroup)
	if err != nil {
		return err
	}
	return local.Serve(ctx, l, identify(a.apiHandler()), a.log)
}

// apiHandler returns the one handler behind all doors, so limits on sessions count the sessions of all doors.
func (a *agent) apiHandler() *kubelet.Server {
	a.apiOnce.Do(func() { a.api = kubelet.New(a.apiOptions()) })
	return a.api
}

func (a *agent) apiOptions() kubelet.Options {
	client := runtimeapi.NewRuntimeServiceClient(a.conn)
	return kubelet.Options{
		StaticUID: a.staticUID,
		Pods:      apiPods{a}, Runtime: client, Owner: a.owner(), Sessions: apiSessions{a},
		Reaper:  a.reaper,
		Logs:    &logs.Instances{Reader: logs.New(logs.Options{Dir: a.cfg.PodLogDir, Log: a.log}), Runtime: client},
		Stats:   a.stats,
		Health:  a.apiHealth(),
		Metrics: a.metrics.Handler(), ProbeMetrics: a.metrics.ProbeHandler(),
		Journal: journal.New(journal.Options{
			Connect: a.connectToBus, History: a.openHistory, Version: Version, Now: time.Now,
		}),
		Config: a.apiConfig, Flags: a.apiFlags, About: kubelet.About{Version: Version, Started: time.Now()},
		SetVerbosity: SetVerbosity, CheckpointDir: filepath.Join(a.cfg.RootDir, own.Checkpoints),
		SystemLogs: a.systemLogs(), SystemLogQuery: a.cfg.SystemLogQuery,
		NoDebugging: a.cfg.NoDebugging, NoProfiling: a.cfg.NoProfiling, NoDebugFlags: a.cfg.NoDebugFlags,
		Limits: kubelet.Limits{Idle: a.cfg.StreamIdle}, Log: a.log,
	}
}

// connectToBus returns a client of the agent's own bus, as any on this machine has it.
func (a *agent) connectToBus(ctx context.Context) (*query.Client, error) {
	return query.Dial(ctx, filepath.Join(a.cfg.RootDir, own.Bus))
}

// systemLogDir is what /logs/ serves, as the kubelet.
const systemLogDir = "/var/log"

func (a *agent) systemLogs() string {
	if a.cfg.NoSystemLogs {
		return ""
	}
	return systemLogDir
}

// apiHealth returns the checks of /healthz.
func (a *agent) apiHealth() func() []kubelet.Check {
	checks := a.healthz()
	return func() (out []kubelet.Check) {
		for _, r := range checks.Run() {
			out = append(out, kubelet.Check{Name: r.Name, Err: r.Err})
		}
		return out
	}
}

func (a *agent) apiConfig() any {
	k, err := a.cfg.KubeletConfiguration()
	if err != nil {
		a.log.Error("cannot show the configuration", "err", err)
	}
	return k
}

func (a *agent) apiFlags() (out []kubelet.Flag) {
	for _, name := range slices.Sorted(maps.Keys(a.cfg.FlagValues)) {
		out = append(out, kubelet.Flag{Name: name, Value: a.cfg.FlagValues[name]})
	}
	return out
}

// debugFrom is the lowest verbosity at which the log has debug messages.
const debugFrom = 2

// LogLevel is the level of the agent's log; the log that is passed to Run follows it.
var LogLevel = new(slog.LevelVar)

// SetVerbosity sets LogLevel by a verbosity of the kubelet.
func SetVerbosity(v int) {
	if v >= debugFrom {
		LogLevel.Set(slog.LevelDebug)
		return
	}
	LogLevel.Set(slog.LevelInfo)
}

// identify names the peer of the socket as the client.
func identify(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if peer, ok := local.PeerOf(r.Context()); ok {
			r = r.WithContext(kubelet.WithClient(r.Context(), peer))
		}
		h.ServeHTTP(w, r)
	})
}

// apiSessions records sessions.
type apiSessions struct{ a *agent }

// Started records the start of a session.
func (s apiSessions) Started(ctx context.Context, e *journaletv1.SessionStarted) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sessionTimeout)
	defer cancel()
	if err := s.a.host.Fact(ctx, messages.Pod(e.GetUid()), messages.NewEvent(e)); err != nil {
		s.a.log.Warn("a session is not in the journal", "session", e.GetSessionId(), "pod", e.GetUid(),
			"client", e.GetClient(), "command", e.GetCommand(), "err", err)
	}
}

// Ended records the end of a session.
func (s apiSessions) Ended(e *journaletv1.SessionEnded) {
	s.a.host.Outcome(messages.Pod(e.GetUid()), messages.NewEvent(e))
}

// apiPods are the pods as their actors show them.
type apiPods struct{ a *agent }

const (
	// requestTimeout bounds how long one request waits for actors of pods that do not answer, requestPodTimeout for one
	// of them. Those of a scrape are too short: an actor with a hundred sessions to record on a busy machine needs some
	// 100 ms, and a pod that is left out cannot be found by a person.
	requestTimeout    = 5 * time.Second
	requestPodTimeout = 2 * time.Second
)

// podDeadline is what is left of the time for all pods of a request, see requestTimeout.
type podDeadline struct{ left time.Duration }

// inspect calls f with the actor of a pod. Each pod that hangs takes from what is left.
func (p apiPods) inspect(ctx context.Context, ref messages.Ref, left *podDeadline, f func(*pod.Actor)) error {
	ctx, cancel := context.WithTimeout(ctx, max(min(left.left, requestPodTimeout), shortest))
	defer cancel()
	begun := time.Now()
	defer func() { left.left -= time.Since(begun) }()
	return p.a.host.Inspect(ctx, ref, func(d actors.Decider) {
		if actor, ok := d.(*pod.Actor); ok {
			f(actor)
		}
	})
}

// served reports whether a pod has a manifest and is not finished.
func served(st *journaletv1.PodState) bool {
	return st.GetPod() != nil && !st.GetOrphan() && st.GetStage() != journaletv1.PodStage_POD_STAGE_FINISHED &&
		st.GetStage() != journaletv1.PodStage_POD_STAGE_UNSPECIFIED
}

// podOf is a pod as its actor shows it, and the digest of its manifest.
type podOf struct {
	*corev1.Pod
	digest string
}

// Pods returns all pods, sorted by namespace and name. One whose actor does not answer in time is left out.
func (p apiPods) Pods(ctx context.Context) (iter.Seq[*corev1.Pod], error) {
	on, left := p.a.nodeView(), podDeadline{requestTimeout}
	var out []podOf
	for _, ref := range p.a.host.Refs(journaletv1.ActorKind_ACTOR_KIND_POD) {
		view := make(chan podOf, 1)
		err := p.inspect(ctx, ref, &left, func(actor *pod.Actor) {
			if served(actor.Pod()) {
				view <- podOf{actor.View(on), actor.Pod().GetPod().GetDigest()}
			}
		})
		if err != nil && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		select {
		case v := <-view:
			out = append(out, v)
		default:
		}
	}
	slices.SortFunc(out, func(x, y podOf) int {
		return cmp.Or(strings.Compare(x.Namespace, y.Namespace), strings.Compare(x.Name, y.Name),
			strings.Compare(string(x.UID), string(y.UID)))
	})
	return func(yield func(*corev1.Pod) bool) {
		for i, v := range out {
			p.a.manifests.Whole(ctx, v.digest, v.Pod)
			if out[i] = (podOf{}); !yield(v.Pod) {
				return
			}
		}
	}, nil
}

// Pod returns the pod with a name, without the large texts that its actor does not have; nil if no pod has that name.
// Of two incarnations it returns the incarnation that is not ending.
func (p apiPods) Pod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	left := podDeadline{requestTimeout}
	var best messages.Ref
	var bestStage journaletv1.PodStage
	var failed error
	for _, ref := range p.a.host.Refs(journaletv1.ActorKind_ACTOR_KIND_POD) {
		stage := make(chan journaletv1.PodStage, 1)
		err := p.inspect(ctx, ref, &left, func(actor *pod.Actor) {
			st := actor.Pod()
			if served(st) && st.GetPod().GetName() == name && st.GetPod().GetNamespace() == namespace {
				stage <- st.GetStage()
			}
		})
		failed = cmp.Or(failed, err)
		select {
		case at := <-stage:
			if best.ID == "" || at < bestStage {
				best, bestStage = ref, at
			}
		default:
		}
	}
	if best.ID == "" {
		if failed != nil {
			return nil, errors.New("a pod's actor does not respond; `journalet pods` names it")
		}
		return nil, nil
	}
	view := make(chan *corev1.Pod, 1)
	on := p.a.nodeView()
	if err := p.inspect(ctx, best, &left, func(actor *pod.Actor) { view <- actor.View(on) }); err != nil {
		return nil, err
	}
	return <-view, nil
}
