package sim

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/runtime/clock"
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
	maxPulls      = 1_000
)

// Options configure a simulated runtime. The zero value is usable: real clock, no images, no logging.
type Options struct {
	// Clock is the real one unless given.
	Clock clock.Clock
	// Logger gets one debug line a state change; nil discards them.
	Logger *slog.Logger
	// Seed is what ids derive from: the same seed and the same order of calls yield the same ids.
	Seed uint64

	// Images are references present from the start.
	Images []string
	// Pinned are more such references, of images that the runtime itself needs.
	Pinned []string
	// ImageSize returns the size of an image in bytes, by its full reference; nil: all have the same.
	ImageSize func(ref string) uint64
	// AnyImage lets PullImage fetch every well-formed reference, at once; without it there is nothing to fetch.
	AnyImage bool
	// PullTime is how long a pull takes by the clock.
	PullTime time.Duration
	// Authorize refuses pulls for want of credentials, which are nil without any; nil: every registry is public. It is
	// called under the runtime's lock.
	Authorize func(image string, auth *cri.AuthConfig) error

	// Behaviour overrides what a container does. It is called by StartContainer, under the runtime's lock (so it
	// must not call the runtime); ok false falls back to Interpret.
	Behaviour func(*cri.ContainerConfig) (b Behaviour, ok bool)
	// WriteMounts lets a simulated process write files through its host path mounts (the termination message, for
	// one). Off, such writes are kept in memory.
	WriteMounts bool
}

// Runtime is one simulated runtime. All methods are safe for concurrent use.
type Runtime struct {
	opts  Options
	clock clock.Clock
	log   *slog.Logger

	mu      sync.Mutex // guards everything below
	state   state
	events  eventHub
	faults  faultTable
	server  serverState
	streams *streams // nil without sessions
	pulls   []*cri.PullImageRequest
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
	podCIDR        string
	sandboxImage   string // named in the verbose status; empty: none is
}

// New returns a runtime that serves nothing yet: see Serve and Dial. It panics only on an image reference in Options
// that cannot be parsed, which is a mistake of the program and not of the world.
func New(opts Options) *Runtime {
	r := &Runtime{opts: opts, clock: opts.Clock, log: opts.Logger}
	if r.clock == nil {
		r.clock = clock.Real{}
	}
	if r.log == nil {
		r.log = slog.New(slog.DiscardHandler)
	}
	r.faults.calls = map[string]int{}
	r.state = state{
		sandboxes: map[string]*sandbox{}, sandboxNames: map[string]string{},
		containers: map[string]*container{}, containerNames: map[string]string{}, images: map[string]*image{},
	}
	for i, name := range slices.Concat(opts.Images, opts.Pinned) {
		ref, err := fullReference(name)
		if err != nil {
			panic(fmt.Sprintf("sim: Options.Images: %v", err))
		}
		r.addImage(ref).pinned = i >= len(opts.Images)
	}
	r.startServer()
	return r
}

// SetReady sets the conditions that Status reports; an empty reason means ready.
func (r *Runtime) SetReady(runtimeReason, networkReason string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.runtimeDown, r.state.networkDown = runtimeReason, networkReason
}

// SetSandboxImage sets the image that the verbose status names for sandboxes, as by a runtime that does not pin it.
func (r *Runtime) SetSandboxImage(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.state.sandboxImage = name
}

// stamp is the clock's time in ns, but strictly increasing: in a real runtime no two changes share a time, and under a
// clock that stands still they must not either. r.mu is held.
func (r *Runtime) stamp() int64 {
	r.state.lastStamp = max(r.clock.Now().UnixNano(), r.state.lastStamp+1)
	return r.state.lastStamp
}

// newID returns the next id: 64 hex digits, as in containerd. r.mu is held.
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

// runtimeService serves the RuntimeService calls; what it does not override is Unimplemented.
type runtimeService struct {
	cri.UnimplementedRuntimeServiceServer
	r *Runtime
}

// imageService serves the ImageService calls.
type imageService struct {
	cri.UnimplementedImageServiceServer
	r *Runtime
}
