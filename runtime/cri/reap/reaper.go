package reap

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/clock"
)

const (
	// watchFirst is how many sessions of a container in a row have to end in time until a probe's is inspected only when
	// it is late. A late one begins the count again.
	watchFirst = 3
	// retryLookup is the pause before the runtime is inspected again for a container whose processes were not found.
	retryLookup = 10 * time.Second
	// lookupTimeout bounds the inspection. maxInfoBytes bounds the answer: containerd's has some 20 KiB.
	lookupTimeout = 2 * time.Second
	maxInfoBytes  = 1 << 20
	// maxTurn is how long a session waits for the one before it in the same container to have its first process.
	maxTurn = time.Second
	// firstForget is the number of known containers at which the Reaper starts to forget ended containers.
	firstForget = 64
	// prefix begins the names of sessions' cgroups.
	prefix = "journalet-"
)

// Runtime is what a Reaper needs of a CRI client.
type Runtime interface {
	ContainerStatus(context.Context, *runtimeapi.ContainerStatusRequest, ...grpc.CallOption) (
		*runtimeapi.ContainerStatusResponse, error)
}

// Execer is what Exec needs of a CRI client.
type Execer interface {
	ExecSync(context.Context, *runtimeapi.ExecSyncRequest, ...grpc.CallOption) (*runtimeapi.ExecSyncResponse, error)
}

// Options configure a Reaper; all but Log are required.
type Options struct {
	// Agent and Run name this agent and this run of it, of letters and digits: a cgroup with another run is left over.
	Agent, Run string
	Runtime    Runtime
	Table      Table
	Clock      clock.Clock
	Log        *slog.Logger
}

// Reaper knows the sessions of this run of the agent. A nil Reaper inspects nothing. Its methods may be called
// concurrently.
type Reaper struct {
	o Options

	mu         sync.Mutex // guards everything below, and the containers
	containers map[string]*container
	forgetAt   int
	sessions   uint64 // so far
}

// container is a running container whose processes can be seen.
type container struct {
	id string
	// init is its first process.
	init Process
	// namespace is its PID namespace; own is false if it has the host's.
	namespace string
	own       bool
	inspected time.Time
	// turn holds a token while a session waits for its first process.
	turn chan struct{}

	watch int
	// waiting are sessions that have begun and whose first process is not known.
	waiting map[*Session]bool
	// firsts are the first processes of sessions.
	firsts map[Process]bool
	// left are sessions that could not be ended.
	left []*Session
}

// New returns a Reaper.
func New(o Options) *Reaper {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Reaper{o: o, containers: map[string]*container{}, forgetAt: firstForget}
}

// Sweep ends what an earlier run of this agent has left: it was killed in a session, whose cgroup says so.
// Call it before the first session.
func (r *Reaper) Sweep(ctx context.Context) {
	if r == nil {
		return
	}
	all := prefix + r.o.Agent + "-"
	for _, dir := range r.o.Table.Groups(all) {
		if ctx.Err() != nil {
			return
		}
		if strings.HasPrefix(dir[strings.LastIndexByte(dir, '/')+1:], all+r.o.Run+"-") {
			continue
		}
		if err := r.endGroup(dir); err != nil {
			r.o.Log.Warn("a command of an earlier run of the agent could not be ended", "cgroup", dir, "err", err)
			continue
		}
		r.o.Log.Info("ended a command that an earlier run of the agent left in a container", "cgroup", dir)
	}
}

// find returns a container whose processes can be seen; nil for any other, as one in a virtual machine.
func (r *Reaper) find(ctx context.Context, id string) *container {
	r.mu.Lock()
	c := r.containers[id]
	r.mu.Unlock()
	if c != nil && (c.init.PID != 0 || r.o.Clock.Now().Sub(c.inspected) < retryLookup) {
		if c.init.PID == 0 {
			return nil
		}
		return c
	}
	fresh, err := r.lookup(ctx, id)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		r.o.Log.Debug("the processes of a container cannot be seen", "container", id, "err", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.containers[id]; c != nil && c.init.PID != 0 {
		return c // another session was faster
	}
	r.forget()
	r.containers[id] = fresh
	if fresh.init.PID == 0 {
		return nil
	}
	return fresh
}

// forget drops containers that have ended; r.mu is held.
func (r *Reaper) forget() {
	if len(r.containers) < r.forgetAt {
		return
	}
	for id, c := range r.containers {
		if p, err := r.o.Table.Process(c.init.PID); err != nil || !p.same(c.init) {
			delete(r.containers, id)
		}
	}
	r.forgetAt = max(firstForget, 2*len(r.containers))
}

// lookup asks the runtime for the first process of a container, and the kernel for that process.
func (r *Reaper) lookup(ctx context.Context, id string) (*container, error) {
	c := &container{
		id: id, inspected: r.o.Clock.Now(), turn: make(chan struct{}, 1), watch: watchFirst,
		waiting: map[*Session]bool{}, firsts: map[Process]bool{},
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	st, err := r.o.Runtime.ContainerStatus(ctx, &runtimeapi.ContainerStatusRequest{ContainerId: id, Verbose: true})
	if err != nil {
		return c, err
	}
	var info struct {
		PID int `json:"pid"`
	}
	if err := bounded.JSON([]byte(st.GetInfo()["info"]), maxInfoBytes, &info); err != nil {
		return c, err
	}
	if info.PID <= 1 {
		return c, fmt.Errorf("the runtime reports no process")
	}
	first, err := r.o.Table.Process(info.PID)
	if err != nil {
		return c, err
	}
	if _, err := r.o.Table.Group(info.PID); err != nil {
		return c, err
	}
	if c.namespace, err = r.o.Table.Namespace(info.PID); err != nil {
		return c, err
	}
	// The first process's parent is the runtime's: if that is in the same namespace, the container has the host's.
	above, err := r.o.Table.Namespace(first.Parent)
	if err != nil {
		return c, err
	}
	c.own, c.init = above != c.namespace, first
	return c, nil
}

// name returns the name of the next session's cgroup.
func (r *Reaper) name() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sessions++
	return prefix + r.o.Agent + "-" + r.o.Run + "-" + strconv.FormatUint(r.sessions, 10)
}
