package simulation

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cri/pleg"
)

// watcher runs runtime/cri/pleg on coroutines instead of goroutines: it inspects pods on hints, and relists. The
// runtime's event stream is a model.
type watcher struct {
	*pleg.PLEG
	run   *run
	noise *rand.Rand
	// inspecting and retrying count the inspections under way, by queue.
	inspecting, retrying int
	// events is set while the event stream is open.
	events bool
}

func newWatcher(r *run) *watcher {
	w := &watcher{run: r, noise: stream(r.seed, "runtime events", r.name())}
	w.PLEG = pleg.New(pleg.Options{
		Conn: criConn{r}, Owner: r.owner(), Clock: driverClock{r.clock, r},
		RootDir: rootDir, PodLogDir: podLogDir, ReadTail: r.world.files.readTail, Log: defects(r),
		Sink: func(_ context.Context, o *journaletv1.PodObserved) error {
			return r.emit(messages.Pod(o.GetUid()), o)
		},
	})
	return w
}

func (w *watcher) hint(uid string) {
	w.Hint(uid)
	w.serveQueues()
}

func (w *watcher) serveQueues() {
	w.serveQueue(false, pleg.Inspectors, &w.inspecting)
	w.serveQueue(true, pleg.RetryWorkers, &w.retrying)
}

func (w *watcher) serveQueue(failed bool, most int, under *int) {
	for *under < most {
		serve := w.Next(failed)
		if serve == nil {
			return
		}
		*under++
		w.run.clock.start(w.run.scope, func(*proc) {
			serve(context.Background())
			*under--
			w.serveQueues()
		})
	}
}

// event sends an event on the stream: most arrive at once, some late, twice or never.
func (w *watcher) event(uid string) {
	world := w.run.world
	if !w.events || !world.up {
		return
	}
	hear := func() {
		if w.events {
			w.HintByEvent(uid)
			w.serveQueues()
		}
	}
	if world.clock.uptime < world.eventsBadUntil {
		switch w.noise.IntN(4) {
		case 0:
			return
		case 1:
			w.run.clock.after(w.run.scope, between(w.noise, time.Second, time.Minute), hear)
		case 2:
			w.run.clock.after(w.run.scope, between(w.noise, 0, 5*time.Second), hear)
		}
	}
	w.run.clock.after(w.run.scope, between(w.noise, 100*time.Microsecond, 5*time.Millisecond), hear)
}

// relist relists periodically, and keeps the event stream open.
func (w *watcher) relist(p *proc) {
	downSince, stream := time.Duration(-1), w.run.world.run
	for {
		world := w.run.world
		if !world.up || stream != world.run {
			if w.events, stream = false, world.run; downSince < 0 {
				downSince = world.clock.uptime
			}
		} else if !w.events && world.clock.uptime-downSince > time.Second {
			w.events, downSince = true, -1
		}
		_ = w.Relist(context.Background()) // a failed relist is repeated after the period
		w.serveQueues()
		period := pleg.RelistWithoutEvents
		if w.events {
			period = pleg.RelistWithEvents
		}
		p.sleep(period)
	}
}
