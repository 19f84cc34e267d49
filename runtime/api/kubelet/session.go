package kubelet

import (
	"context"
	"net/http"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cri/reap"
)

// Why sessions fail, for records. The runtime's own words may hold arguments of a command.
const (
	failedRefused = "the runtime refused it"
	failedStream  = "the stream to the runtime failed"
	failedClient  = "the client left"
	failedIdle    = "nothing was sent or received for too long"
)

// session is what a client does in a pod, from its request to its end.
type session struct {
	s     *Server
	share share
	start *journaletv1.SessionStarted
	begun time.Time

	// ctx ends with the request, with the client and with the session.
	ctx    context.Context
	cancel context.CancelFunc
	// outcome reads the exit code of what passes through; nil: nothing does.
	outcome *outcome
	// processes are what the session has started; nil: nothing, or they cannot be seen.
	processes *reap.Session
	// aborted is set when the client has left.
	aborted atomic.Bool

	mu      sync.Mutex
	exit    *int32
	message string
}

// what describes a session for its record.
type what struct {
	kind      journaletv1.SessionKind
	container string
	command   []string
	tty       bool
}

// begin begins a session and records it. Beyond the limits it answers 429 and returns nil.
func (s *Server) begin(w http.ResponseWriter, r *http.Request, p *corev1.Pod, k what) *session {
	client := clientOf(r.Context())
	share := shareOf(client, p, k.kind)
	if why := s.limits.take(share); why != "" {
		w.Header().Set("Retry-After", "1")
		fail(w, http.StatusTooManyRequests, why)
		return nil
	}
	x := &session{s: s, share: share, begun: time.Now(), start: &journaletv1.SessionStarted{
		Uid: string(p.UID), SessionId: string(uuid.NewUUID()), Kind: k.kind,
		Container: k.container, Client: client.String(), Tty: k.tty,
	}}
	if len(k.command) > 0 {
		x.start.Command = programName(k.command[0])
		x.start.Arguments = uint32(len(k.command) - 1)
	}
	x.ctx, x.cancel = context.WithCancel(r.Context())
	x.outcome = x.observe(r)
	if s.Sessions != nil {
		s.Sessions.Started(x.ctx, x.start)
	}
	return x
}

// programName returns the name of a program without its directory. Of a whole script that was passed as one word
// nothing is kept but its first word.
func programName(arg string) string {
	word, _, _ := strings.Cut(strings.TrimSpace(arg), " ")
	word = path.Base(word)
	if strings.Contains(word, "=") {
		return "?" // a variable and its value
	}
	return word
}

// fail keeps why the session failed; the first reason counts.
func (x *session) fail(why string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.message == "" {
		x.message = why
	}
}

// exited keeps the exit code of the session's command.
func (x *session) exited(code int32) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.exit = &code
}

// endProcesses ends the processes of a session whose command has not ended by itself: the client has left, the stream
// broke, or the agent stops.
func (x *session) endProcesses(broken bool) {
	if x.processes == nil {
		return
	}
	x.mu.Lock()
	ended, failed := x.exit != nil, x.message != ""
	x.mu.Unlock()
	found, alive := x.processes.Known()
	if alive || !ended && (broken && x.aborted.Load() || failed || !found) {
		x.processes.Kill()
		return
	}
	x.processes.Keep()
}

// end ends and records the session.
func (x *session) end() {
	broken := x.ctx.Err() != nil
	x.cancel()
	x.outcome.end(x)
	x.endProcesses(broken)
	x.s.limits.release(x.share)
	if x.s.Sessions == nil {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.s.Sessions.Ended(&journaletv1.SessionEnded{
		Uid: x.start.GetUid(), SessionId: x.start.GetSessionId(), Kind: x.start.GetKind(),
		Container: x.start.GetContainer(), Duration: durationpb.New(time.Since(x.begun)),
		ExitCode: x.exit, Message: x.message,
	})
}
