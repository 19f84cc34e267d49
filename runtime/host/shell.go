package host

import (
	"context"
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Supervision: the agent's own actor stands over the singletons and the sources, a source over its
// pods. A member that fails is suspended by protoactor, rebuilt from the journal by repair (see
// repair.go) and resumed; its children, if it has any, go on meanwhile.

// spawnChild asks a supervisor to spawn a member.
type spawnChild struct {
	props *actor.Props
	name  string
	m     *member
}

// superviseMessage is what every actor that may have children does with spawnChild. The member knows
// its PID before its supervisor can hear of a failure of it, since that comes as a later message.
func superviseMessage(ctx actor.Context) {
	s, ok := ctx.Message().(*spawnChild)
	if !ok {
		return
	}
	pid, err := ctx.SpawnNamed(s.props, s.name)
	if err != nil {
		// Names are taken only by a member that is being stopped; protoactor gives this one a name of its own.
		pid = ctx.Spawn(s.props)
	}
	if ended := s.m.born(pid); ended {
		ctx.Stop(pid)
	}
}

// memberActor is the protoactor side of a member.
type memberActor struct {
	h *Host
	m *member
}

// Receive handles one message on the actor's goroutine. Nothing here blocks.
func (a *memberActor) Receive(ctx actor.Context) {
	switch msg := ctx.Message().(type) {
	case *delivery:
		a.m.since.Store(int64(time.Since(a.h.made)))
		defer a.m.since.Store(0)
		a.h.handle(a.m.current(), msg)
	case *question:
		msg.answer(a.m.current().decider)
	case *marker:
		msg.pass(a.m.current())
	default:
		superviseMessage(ctx)
	}
}

// handle lets a cell handle a record and appends its step. A failure is thrown to the supervisor.
func (h *Host) handle(c *cell, d *delivery) {
	if c.quarantined != nil || d.rec.GetSeq() <= c.handled {
		return
	}
	step, fail := c.handle(d, h.opts.Epoch, h.opts.Now())
	if fail != nil {
		panic(fail)
	}
	if step != nil {
		h.opts.Journal.Append(step)
	}
}

// strategy rebuilds a failed child and lets it go on.
type strategy struct{ h *Host }

// HandleFailure is called on the supervisor's goroutine; the work, which reads the journal, is not
// done there.
func (s strategy) HandleFailure(_ *actor.ActorSystem, sup actor.Supervisor, child *actor.PID, _ *actor.RestartStatistics, reason, _ any) {
	h := s.h
	ref, m := h.byPID(child)
	if m == nil {
		return
	}
	h.repairs.Go(func() {
		fail, ok := reason.(*failure)
		if !ok {
			fail = &failure{code: journaletv1.DecisionError_DECISION_ERROR_PANIC, cause: m.current().handled, err: panicError{reason}}
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

// raise starts the actor system and its root.
func (h *Host) raise() {
	h.system = actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger {
		return slog.New(quiet{h.opts.Log.Handler()}).With("lib", "protoactor")
	}))
	h.root = h.system.Root.Spawn(actor.PropsFromFunc(
		superviseMessage, actor.WithSupervisor(strategy{h})))
}

// sourceOf is the source that a delivery says a pod to be of, the folder for one that no source has named.
func sourceOf(d *delivery) string {
	events := messages.Events(d.rec)
	for _, i := range d.heard {
		if s := events[i].GetPodUpdated().GetSource(); s != "" {
			return s
		}
	}
	return messages.FileSource
}

// spawn makes a cell a member, under its supervisor, which for a pod is its source. The mailbox takes records at once, so the order
// holds whenever the supervisor, which may be suspended itself, gets to spawning.
func (h *Host) spawn(c *cell, source string) *member {
	m := &member{box: newMailbox(), cell: c}
	props := actor.PropsFromProducer(func() actor.Actor { return &memberActor{h, m} },
		actor.WithMailbox(func() actor.Mailbox { return m.box }), actor.WithSupervisor(strategy{h}))
	parent := h.root
	if c.ref.Kind == journaletv1.ActorKind_ACTOR_KIND_POD {
		if s := h.member(messages.Source(source)); s != nil && s.process() != nil {
			parent = s.process()
		}
	}
	h.system.Root.Send(parent, &spawnChild{props: props, name: c.ref.KindName() + "-" + c.ref.ID, m: m})
	h.mu.Lock()
	h.members[c.ref] = m
	h.mu.Unlock()
	return m
}

// quiet lets only warnings and errors of protoactor through.
type quiet struct{ slog.Handler }

// WithAttrs keeps the bound.
func (q quiet) WithAttrs(attrs []slog.Attr) slog.Handler { return quiet{q.Handler.WithAttrs(attrs)} }

// WithGroup keeps the bound.
func (q quiet) WithGroup(name string) slog.Handler { return quiet{q.Handler.WithGroup(name)} }

// Enabled tells whether a record of this level is logged.
func (q quiet) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn && q.Handler.Enabled(ctx, l)
}
