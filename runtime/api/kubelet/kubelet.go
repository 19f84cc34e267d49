package kubelet

import (
	"cmp"
	"context"
	"iter"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cri"
	"github.com/journalet/journalet/runtime/cri/reap"
)

const (
	// maxBodyBytes bounds the body of a request; only forms have one.
	maxBodyBytes = 64 << 10
	// respondTimeout bounds a response that is no stream.
	respondTimeout = 30 * time.Second
)

// Pods are the pods of the node, without orphans and finished pods.
type Pods interface {
	// Pods returns all pods with their status, as the Kubernetes API shows them. All together may be large: the caller
	// keeps one at a time.
	Pods(ctx context.Context) (iter.Seq[*corev1.Pod], error)
	// Pod returns the pod with a name, nil if no pod has it. Of several incarnations it returns the newest.
	Pod(ctx context.Context, namespace, name string) (*corev1.Pod, error)
}

// Runtime is what the handler needs of the container runtime; a CRI client implements it.
type Runtime interface {
	ListPodSandbox(context.Context, *runtimeapi.ListPodSandboxRequest, ...grpc.CallOption) (
		*runtimeapi.ListPodSandboxResponse, error)
	ListContainers(context.Context, *runtimeapi.ListContainersRequest, ...grpc.CallOption) (
		*runtimeapi.ListContainersResponse, error)
	Exec(context.Context, *runtimeapi.ExecRequest, ...grpc.CallOption) (*runtimeapi.ExecResponse, error)
	Attach(context.Context, *runtimeapi.AttachRequest, ...grpc.CallOption) (*runtimeapi.AttachResponse, error)
	PortForward(context.Context, *runtimeapi.PortForwardRequest, ...grpc.CallOption) (
		*runtimeapi.PortForwardResponse, error)
	ExecSync(context.Context, *runtimeapi.ExecSyncRequest, ...grpc.CallOption) (*runtimeapi.ExecSyncResponse, error)
	CheckpointContainer(context.Context, *runtimeapi.CheckpointContainerRequest, ...grpc.CallOption) (
		*runtimeapi.CheckpointContainerResponse, error)
}

// Sessions records sessions.
type Sessions interface {
	// Started records the start of a session, within seconds.
	Started(ctx context.Context, e *journaletv1.SessionStarted)
	// Ended records its end. It does not block.
	Ended(e *journaletv1.SessionEnded)
}

// Options configure a Server. Pods and Runtime are required; of the rest, what is nil is answered with 501.
type Options struct {
	Pods    Pods
	Runtime Runtime
	// Owner knows this agent's objects; others are not reached.
	Owner    cri.Owner
	Sessions Sessions
	// Reaper ends the processes of clients that have left. Nil: they stay.
	Reaper *reap.Reaper
	// StaticUID returns the UID of the static pod that a mirror pod shows, by the mirror pod's; "" for any other. Nil:
	// there are no mirror pods.
	StaticUID func(uid string) string
	// Health runs the checks of /healthz.
	Health func() []Check
	Logs   Logs
	Stats  Stats
	// Metrics are the agent's own metrics, ProbeMetrics the metrics of /metrics/probes.
	Metrics, ProbeMetrics http.Handler
	// Journal serves what is below /journal/.
	Journal http.Handler
	// Config returns the KubeletConfiguration in effect, Flags the flags by name. Neither holds secrets.
	Config func() any
	Flags  func() []Flag
	About  About
	// SetVerbosity changes the verbosity of the log.
	SetVerbosity func(level int)
	// SystemLogs is the directory that /logs/ serves; empty: it is disabled. CheckpointDir is where checkpoints go.
	SystemLogs, CheckpointDir string
	// SystemLogQuery permits queries of system logs on /logs/. Journalctl is the program that reads the journal of
	// systemd; empty: the one of this name.
	SystemLogQuery bool
	Journalctl     string
	// queryTimeout bounds a query; zero: logQueryTimeout.
	queryTimeout time.Duration

	// NoProfiling and NoDebugFlags disable /debug/pprof/ and /debug/flags/v.
	NoProfiling, NoDebugFlags bool
	// NoDebugging disables what the kubelet's enableDebuggingHandlers does: sessions, logs and profiles.
	NoDebugging bool
	Limits      Limits
	Log         *slog.Logger
}

// Server is the handler. Its sessions end with the contexts of their requests.
type Server struct {
	Options
	mux    *http.ServeMux
	limits *limiter
	// allPods, allRunning and summaries, by their view, are pages that grow with the node.
	allPods, allRunning shared
	summaries           map[string]*shared
	// logQueries has a place for each query of system logs at once.
	logQueries chan struct{}
	// paths are the registered paths.
	paths []string
}

// New returns the handler.
func New(o Options) *Server {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.About.Started.IsZero() {
		o.About.Started = time.Now()
	}
	o.Limits.fill()
	o.queryTimeout = cmp.Or(o.queryTimeout, logQueryTimeout)
	o.Journalctl = cmp.Or(o.Journalctl, "journalctl")
	s := &Server{
		Options: o, mux: http.NewServeMux(), limits: newLimiter(&o.Limits), summaries: map[string]*shared{},
		logQueries: make(chan struct{}, maxLogQueries),
	}
	for _, view := range []string{"", viewTop, viewWide, viewNode, onlyCPUAndMemory} {
		s.summaries[view] = &shared{log: o.Log}
	}
	s.route()
	return s
}

// route registers all paths.
func (s *Server) route() {
	s.get("/pods", s.pods)
	s.healthRoutes()
	s.statsRoutes()
	s.metricRoutes()
	if s.NoDebugging {
		for _, path := range []string{"/run/", "/exec/", "/attach/", "/portForward/", "/containerLogs/", "/runningpods/",
			"/debug/pprof/", "/logs/", "/journal/"} {
			s.handle("", path, disabled("Debug endpoints are disabled."))
		}
		return
	}
	s.get("/runningpods/", s.runningPods)
	s.streamRoutes()
	s.runRoutes()
	s.logRoutes()
	s.systemLogRoutes()
	s.pageRoutes()
	s.handle("", "/journal/", cmp.Or(s.Journal, absent("the journal")))
}

// metricRoutes registers the agent's own metrics.
func (s *Server) metricRoutes() {
	for path, h := range map[string]http.Handler{"/metrics": s.Metrics, "/metrics/probes": s.ProbeMetrics} {
		if h == nil {
			h = absent(path[1:])
		}
		s.get(path, h.ServeHTTP)
	}
}

// handle registers a path. An empty method means all of them.
func (s *Server) handle(method, path string, h http.Handler) {
	pattern := path
	if strings.HasSuffix(path, "/") {
		pattern += "{$}"
		if method == "" {
			pattern = path
		}
	}
	s.mux.Handle(strings.TrimSpace(method+" "+pattern), h)
	root, _, _ := strings.Cut(path, "/{")
	if len(s.paths) == 0 || s.paths[len(s.paths)-1] != root {
		s.paths = append(s.paths, root)
	}
}

// get registers a path that is answered at once.
func (s *Server) get(path string, h http.HandlerFunc) { s.handle(http.MethodGet, path, prompt(h)) }

// prompt bounds the time of a response that is no stream.
func prompt(h http.Handler) http.Handler { return within(respondTimeout, h) }

// within bounds the time of a response.
func within(limit time.Duration, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), limit)
		defer cancel()
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(limit)) // not every writer has one
		h.ServeHTTP(w, r.WithContext(ctx))
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{})
	})
}

func disabled(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, text, http.StatusMethodNotAllowed)
	})
}

// absent answers for what this agent does not serve.
func absent(what string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, what+" is not served by this agent.", http.StatusNotImplemented)
	})
}

// ServeHTTP serves one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBodyBytes)
	s.mux.ServeHTTP(w, r)
}

// fail writes an error as the kubelet does: its text alone.
func fail(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(code)
	_, _ = w.Write([]byte(text)) // the client has left
}
