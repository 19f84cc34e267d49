package sim

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// RuntimeName is what Version calls this runtime.
const RuntimeName = "journalet-sim"

// Bounds of one simulated runtime. They are far above what a node may hold (the kubelet's default is 110 pods), and
// exist so that a loop gone wrong ends in an error and not in a full memory.
const (
	maxSandboxes  = 10_000
	maxContainers = 50_000
	maxImages     = 10_000
	maxFaults     = 1_000
)

// Options configure a simulated runtime. The zero value is usable: real clock, no images, no logging.
type Options struct {
	// Clock is the real one unless given.
	Clock Clock
	// Logger gets one debug line a state change; nil discards them.
	Logger *slog.Logger
	// Seed makes ids: the same seed and the same order of calls give the same ids.
	Seed uint64

	// Images are references present from the start.
	Images []string
	// Registry are the references that PullImage can fetch.
	Registry map[string]ImageDef
	// AnyImage lets PullImage fetch every well-formed reference, with PullTime and a made-up size.
	AnyImage bool
	// PullTime is how long a pull takes by the clock where the Registry names no time of its own.
	PullTime time.Duration

	// Behaviour overrides what a container does. It is asked at StartContainer, under the runtime's lock (so it
	// must not call the runtime); ok false falls back to Interpret.
	Behaviour func(*cri.ContainerConfig) (b Behaviour, ok bool)
	// WriteMounts lets a simulated process write files through its host path mounts (the termination message, for
	// one). Off, such writes are kept in memory.
	WriteMounts bool
}

// Runtime is one simulated runtime. All methods are safe for concurrent use.
type Runtime struct {
	opts  Options
	clock Clock
	log   *slog.Logger

	mu     sync.Mutex // guards everything below
	state  state
	events eventHub
	faults faultTable
	server serverState
}

// state is what survives Crash and Restart, as a real runtime's state survives on disk and in its shims.
type state struct {
	sandboxes      map[string]*sandbox
	containers     map[string]*container
	sandboxNames   map[string]string // reserved name to sandbox id
	containerNames map[string]string
	images         map[string]*image // by image id
	ids            uint64
	nextIP         uint32
	lastStamp      int64
	runtimeDown    string // reason why RuntimeReady is false; empty when ready
	networkDown    string
}

// New makes a runtime that serves nothing yet: see Serve and Dial. It panics only on an image reference in Options
// that cannot be read, which is a mistake of the program and not of the world.
func New(opts Options) *Runtime {
	r := &Runtime{opts: opts, clock: opts.Clock, log: opts.Logger}
	if r.clock == nil {
		r.clock = realClock{}
	}
	if r.log == nil {
		r.log = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	r.faults.calls = map[string]int{}
	r.state = newState()
	r.loadImages()
	r.startServer()
	return r
}

func newState() state {
	return state{
		sandboxes:      map[string]*sandbox{},
		containers:     map[string]*container{},
		sandboxNames:   map[string]string{},
		containerNames: map[string]string{},
		images:         map[string]*image{},
	}
}

func (r *Runtime) loadImages() {
	for _, ref := range r.opts.Images {
		name, err := parseReference(ref)
		if err != nil {
			panic(fmt.Sprintf("sim: Options.Images: %v", err))
		}
		r.addImage(name, r.opts.Registry[ref])
	}
}

// Forget wipes all state, as if the runtime's folders had been deleted under it: sandboxes and containers vanish with
// no event, images are those of Options again. Connections, faults and counters stay.
func (r *Runtime) Forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.state.containers {
		c.haltProcess()
		c.state = cri.ContainerState_CONTAINER_EXITED // for calls that hold it still: nothing is left to kill
		c.markStopped()
	}
	ids, stamp := r.state.ids, r.state.lastStamp
	r.state = newState()
	r.state.ids, r.state.lastStamp = ids, stamp
	r.events.held = nil
	r.loadImages()
}

// Reboot ends every process as a node's reboot does: running containers turn EXITED with code 255 and reason Unknown,
// sandboxes NOTREADY and without their address, with no events. The records stay.
func (r *Runtime) Reboot() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.state.containers {
		if c.state == cri.ContainerState_CONTAINER_RUNNING || c.state == cri.ContainerState_CONTAINER_UNKNOWN {
			c.haltProcess()
			c.state, c.exitCode, c.reason = cri.ContainerState_CONTAINER_EXITED, exitCodeUnknown, reasonUnknown
			c.finishedAt = r.stamp()
			c.markStopped()
		}
	}
	for _, s := range r.state.sandboxes {
		s.ready, s.ip = false, ""
	}
	r.events.held = nil
}

// SetReady sets the conditions that Status reports; an empty reason means ready.
func (r *Runtime) SetReady(runtimeReason, networkReason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.runtimeDown, r.state.networkDown = runtimeReason, networkReason
}

// stamp is the clock's time in ns, made strictly increasing: a real runtime never gives two changes one time, and a
// clock that stands still must not either. r.mu is held.
func (r *Runtime) stamp() int64 {
	r.state.lastStamp = max(r.clock.Now().UnixNano(), r.state.lastStamp+1)
	return r.state.lastStamp
}

// newID gives the next 64 hex digits, as containerd's ids look. r.mu is held.
func (r *Runtime) newID() string {
	r.state.ids++
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], r.opts.Seed)
	binary.BigEndian.PutUint64(b[8:], r.state.ids)
	sum := sha256.Sum256(b[:])
	return hex.EncodeToString(sum[:])
}

// errEmptyID refuses calls that name nothing: "missing is fine" must not cover a caller that forgot what it meant.
var errEmptyID = status.Error(codes.Unknown, "the id is empty; name what to stop or remove")

func notFound(kind, id string) error {
	if id == "" {
		return errEmptyID
	}
	return status.Errorf(codes.NotFound, "%s %q not found", kind, id)
}

// register puts both CRI services on a gRPC server.
func (r *Runtime) register(s *grpc.Server) {
	cri.RegisterRuntimeServiceServer(s, &runtimeService{r: r})
	cri.RegisterImageServiceServer(s, &imageService{r: r})
}

// runtimeService answers the RuntimeService calls; what it does not override is Unimplemented.
type runtimeService struct {
	cri.UnimplementedRuntimeServiceServer
	r *Runtime
}

// imageService answers the ImageService calls.
type imageService struct {
	cri.UnimplementedImageServiceServer
	r *Runtime
}
