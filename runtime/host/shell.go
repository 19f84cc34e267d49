package host

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/fold"
)

// Supervision: the root supervises the singletons and the sources, a source its pods. Protoactor suspends a failed
// member; repair (see repair.go) rebuilds it from the journal, then it is resumed. Its children keep running meanwhile.

// spawnChild requests a supervisor to spawn a member.
type spawnChild struct {
	props *actor.Props
	name  string
	m     *member
}

// spawnOnRequest handles spawnChild in every actor that may have children. The member has its PID before its supervisor
// can receive a failure of it, since that is a later message.
func spawnOnRequest(ctx actor.Context) {
	s, ok := ctx.Message().(*spawnChild)
	if !ok {
		return
	}
	pid, err := ctx.SpawnNamed(s.props, s.name)
	if err != nil {
		// A stopping member still has the name; protoactor chooses another one.
		pid = ctx.Spawn(s.props)
	}
	if ended := s.m.setProcess(pid); ended {
		ctx.Stop(pid)
	}
}

// memberActor is the protoactor actor of a member.
type memberActor struct {
	h *Host
	m *member
}

// Receive handles one message on the actor's goroutine. It does not block.
func (a *memberActor) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *fold.Delivery:
		a.m.since.Store(int64(time.Since(a.h.createdAt)))
		defer a.m.since.Store(0)
		a.h.handle(a.m.current(), msg)
	case *inspection:
		msg.run(a.m.current().Decider)
	case *marker:
		msg.pass(a.m.current())
	default:
		spawnOnRequest(ctx)
	}
}

// handle makes a cell handle a record and appends its step. A failure panics, for the supervisor.
func (h *Host) handle(c *fold.Cell, d *fold.Delivery) {
	if c.Quarantined != nil || d.Rec.GetSeq() <= c.Handled {
		return
	}
	if fail := h.decide(c, d); fail != nil {
		panic(fail)
	}
}

// decide makes a cell handle a record and appends its step. After a failure, which a refused step is too, the cell must
// be dropped.
func (h *Host) decide(c *fold.Cell, d *fold.Delivery) *fold.Failure {
	step, fail := c.Handle(d, h.opts.Epoch, h.opts.Now())
	if fail != nil || len(step) == 0 {
		return fail
	}
	if err := h.opts.Journal.Append(step...); err != nil {
		return &fold.Failure{
			Code: journaletv1.DecisionError_DECISION_ERROR_STEP_REFUSED, Cause: d.Seq(),
			Err: fmt.Errorf("the journal refused its step (%s): %w", describe(step), err),
		}
	}
	return nil
}

// describe returns what a step decides, without the decisions' content, which may hold secrets: "3 call_requested and
// 1 timer_set, 4711 bytes".
func describe(recs []*journaletv1.Record) string {
	counts, size := map[string]int{}, 0
	for _, rec := range recs {
		size += proto.Size(rec)
		for _, e := range rec.GetStep().GetDecisions() {
			counts[messages.EventName(e)]++
		}
	}
	var all []string
	for name, n := range counts {
		all = append(all, fmt.Sprintf("%d %s", n, name))
	}
	slices.Sort(all)
	return fmt.Sprintf("%s, %d bytes", strings.Join(all, " and "), size)
}

// strategy rebuilds and resumes a failed child.
type strategy struct{ h *Host }

// HandleFailure is called on the supervisor's goroutine. The repair reads the journal on another one.
func (s strategy) HandleFailure(_ *actor.ActorSystem, sup actor.Supervisor, child *actor.PID,
	_ *actor.RestartStatistics, reason, _ any) {
	h := s.h
	ref, m := h.byPID(child)
	if m == nil {
		return
	}
	h.repairs.Go(func() {
		fail, ok := reason.(*fold.Failure)
		if !ok {
			code := journaletv1.DecisionError_DECISION_ERROR_PANIC
			fail = &fold.Failure{Code: code, Cause: m.current().Handled, Err: panicError{reason}}
		}
		h.repair(ref, m, fail)
		sup.ResumeChildren(child)
	})
}

func (h *Host) byPID(pid *actor.PID) (messages.Ref, *member) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for ref, m := range h.members {
		if m.process().Equal(pid) {
			return ref, m
		}
	}
	return messages.Ref{}, nil
}

// startSystem starts the actor system and its root.
func (h *Host) startSystem() {
	h.system = actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger {
		return slog.New(warnOnly{h.opts.Log.Handler()}).With("lib", "protoactor")
	}))
	h.root = h.system.Root.Spawn(actor.PropsFromFunc(
		spawnOnRequest, actor.WithSupervisor(strategy{h})))
}

// sourceOf returns the source of a pod in a delivery, the file source for an orphan.
func sourceOf(d *fold.Delivery) string {
	events := messages.Events(d.Rec)
	for _, i := range d.Indices {
		if s := events[i].GetPodUpdated().GetSource(); s != "" {
			return s
		}
	}
	return messages.FileSource
}

// spawn makes a cell a member under its supervisor, for a pod its source. The mailbox accepts records at once, so their
// order is kept even if the supervisor, which may be suspended, spawns the actor later.
func (h *Host) spawn(c *fold.Cell, source string) *member {
	m := &member{box: newMailbox(), cell: c}
	props := actor.PropsFromProducer(func() actor.Actor { return &memberActor{h, m} },
		actor.WithMailbox(func() actor.Mailbox { return m.box }), actor.WithSupervisor(strategy{h}))
	parent := h.root
	if c.Ref.Kind == journaletv1.ActorKind_ACTOR_KIND_POD {
		if s := h.member(messages.Source(source)); s != nil && s.process() != nil {
			parent = s.process()
		}
	}
	h.system.Root.Send(parent, &spawnChild{props: props, name: c.Ref.KindName() + "-" + c.Ref.ID, m: m})
	h.mu.Lock()
	h.members[c.Ref] = m
	h.mu.Unlock()
	return m
}

// warnOnly drops log records of protoactor below warnings.
type warnOnly struct{ slog.Handler }

// WithAttrs keeps the level.
func (q warnOnly) WithAttrs(attrs []slog.Attr) slog.Handler {
	return warnOnly{q.Handler.WithAttrs(attrs)}
}

// WithGroup keeps the level.
func (q warnOnly) WithGroup(name string) slog.Handler { return warnOnly{q.Handler.WithGroup(name)} }

// Enabled reports whether a record of this level is logged.
func (q warnOnly) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn && q.Handler.Enabled(ctx, l)
}
