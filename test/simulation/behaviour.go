package simulation

import (
	"strconv"
	"time"

	"github.com/journalet/journalet/messages/journaletv1"
)

// behaviour is what the program of one instance does. It follows from seed, pod, container and attempt alone.
type behaviour struct {
	// runs is when it ends by itself, 0 for never.
	runs   time.Duration
	code   int32
	reason string
	// ends is how long it takes to end after SIGTERM, with termCode.
	ends        time.Duration
	termCode    int32
	ignoresTerm bool
	// up is when startup and readiness probes begin to succeed, sickFrom when liveness begins to fail (0: never).
	up, sickFrom time.Duration
	// flaps is how often readiness changes, 0 for never.
	flaps time.Duration
	// uses is the memory that it uses, in bytes.
	uses int64
	// postStart and preStop are how long a hook by exec or HTTP takes; negative: it fails after that.
	postStart, preStop time.Duration
	// message is what it leaves as its termination message when it ends, log the last line of its log.
	message, log string
}

// behaviourOf draws what an instance does.
func (w *world) behaviourOf(c *container) behaviour {
	r := stream(w.seed, "behaviour", c.manifest.Name, c.name, strconv.Itoa(int(c.attempt)))
	b := behaviour{code: pick[int32](r, 0, 0, 1, 1, 2, 42), ends: between(r, time.Millisecond, 4*time.Second),
		termCode: pick[int32](r, 143, 0, 1)}
	b.reason = "Error"
	if b.code == 0 {
		b.reason = "Completed"
	}
	switch r.IntN(10) {
	case 0:
		b.runs = between(r, time.Millisecond, 50*time.Millisecond)
	case 1, 2:
		b.runs = between(r, 50*time.Millisecond, 30*time.Second)
	case 3:
		b.runs = between(r, 30*time.Second, 20*time.Minute)
	case 4:
		b.runs, b.code, b.reason = between(r, time.Second, 5*time.Minute), 137, "OOMKilled"
	}
	b.ignoresTerm = chance(r, 6)
	b.up = between(r, 0, 15*time.Second)
	if chance(r, 5) {
		b.sickFrom = between(r, 10*time.Second, 5*time.Minute)
	}
	if chance(r, 4) {
		b.flaps = between(r, 20*time.Second, 3*time.Minute)
	}
	b.postStart, b.preStop = between(r, time.Millisecond, 3*time.Second), between(r, time.Millisecond, 20*time.Second)
	if chance(r, 8) {
		b.postStart = -b.postStart
	}
	if chance(r, 6) {
		b.preStop = -b.preStop
	}
	if b.uses = 1<<20 + r.Int64N(2<<30); c.has.GetMemoryLimitBytes() > 0 {
		b.uses = min(b.uses, c.has.GetMemoryLimitBytes()*3/4)
	}
	if c.once {
		b.runs = between(r, 5*time.Millisecond, 10*time.Second)
		if chance(r, 2) {
			b.code, b.reason = 0, "Completed"
		}
	}
	b.log = c.id + " has ended\n"
	if chance(stream(w.seed, "message", c.manifest.Name, c.name, strconv.Itoa(int(c.attempt))), 2) {
		b.message = c.id + " says why"
	}
	if w.calm {
		b.heal(c)
	}
	if w.judge.sim.tenants != nil {
		return tenantDoes(w, c, b)
	}
	return b
}

// heal makes a program succeed: it runs on without failing, or exits with 0 if it is to end.
func (b *behaviour) heal(c *container) {
	b.code, b.reason, b.up, b.sickFrom, b.flaps, b.ignoresTerm = 0, "Completed", 0, 0, 0, false
	b.postStart, b.preStop = max(b.postStart, -b.postStart), max(b.preStop, -b.preStop)
	b.runs, b.uses = 0, 0
	if c.once {
		b.runs = time.Second
	}
}

// heal makes all programs succeed from now on.
func (w *world) heal() {
	w.calm = true
	for _, o := range w.objects {
		for _, c := range o.containers {
			if !c.alive() {
				continue
			}
			c.does.heal(c)
			w.scheduleEnd(c)
			if c.termed {
				w.clock.after(nil, time.Second, func() { w.exit(c, 143, "Error") })
			}
		}
	}
}

// probe returns whether one attempt at a probe succeeds.
func (w *world) probe(c *container, kind journaletv1.ProbeKind) bool {
	age := w.clock.uptime - c.startedAt
	switch kind {
	case journaletv1.ProbeKind_PROBE_KIND_LIVENESS:
		return c.does.sickFrom == 0 || age < c.does.sickFrom
	case journaletv1.ProbeKind_PROBE_KIND_STARTUP:
		return age >= c.does.up
	}
	return age >= c.does.up && (c.does.flaps == 0 || age/c.does.flaps%2 == 0)
}

// hook returns how long an exec or HTTP hook takes, and whether it succeeds.
func (c *container) hook(kind journaletv1.HookKind) (time.Duration, bool) {
	d := c.does.postStart
	if kind == journaletv1.HookKind_HOOK_KIND_PRE_STOP {
		d = c.does.preStop
	}
	return max(d, -d), d >= 0
}
