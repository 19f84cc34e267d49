package health_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/clock"
	"github.com/journalet/journalet/runtime/cri/health"
	"github.com/journalet/journalet/runtime/sim"
)

// gate is a clock whose pauses end at a tick of the test. Its polls have no deadline, or with hurry a short one.
type gate struct {
	clock.Real
	idle, tick chan struct{}
	hurry      bool
}

// after lets the monitor poll once it has ended the poll before and something has changed.
func (g *gate) after(change func()) {
	<-g.idle
	change()
	g.tick <- struct{}{}
}

func (g *gate) Wait(ctx context.Context, _ time.Duration) error {
	select {
	case g.idle <- struct{}{}:
		<-g.tick
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (g *gate) WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	if g.hurry {
		return context.WithTimeout(ctx, d)
	}
	return context.WithCancel(ctx)
}

func TestHealthReportsOnlyChanges(t *testing.T) {
	r := sim.New(sim.Options{})
	t.Cleanup(r.Close)
	conn, err := r.Dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	reported := make(chan *journaletv1.RuntimeHealthChanged, 10)
	g := &gate{idle: make(chan struct{}), tick: make(chan struct{})}
	m := health.New(health.Options{
		Conn: conn, Clock: g, Timeout: 100 * time.Millisecond,
		Sink: func(_ context.Context, h *journaletv1.RuntimeHealthChanged) error { reported <- h; return nil },
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- m.Run(ctx) }()
	h := <-reported
	if !h.GetRuntimeReady() || !h.GetNetworkReady() || h.GetRuntimeName() != sim.RuntimeName ||
		h.GetRuntimeVersion() == "" || h.GetMessage() != "" {
		t.Errorf("reported %v", h)
	}
	g.after(func() {}) // nothing changed, so nothing may be reported before the next change
	g.after(func() {})
	g.after(func() { r.SetReady("", "no CNI configuration") })
	if h = <-reported; !h.GetRuntimeReady() || h.GetNetworkReady() ||
		!strings.Contains(h.GetMessage(), "no CNI configuration") {
		t.Errorf("reported %v", h)
	}
	var remove func()
	g.after(func() { g.hurry, remove = true, r.Inject(sim.Fault{Method: "Status", Hang: true}) })
	if h = <-reported; h.GetRuntimeReady() || h.GetNetworkReady() || h.GetRuntimeName() != sim.RuntimeName ||
		!strings.Contains(h.GetMessage(), "does not respond") {
		t.Errorf("reported %v", h)
	}
	g.after(func() {
		g.hurry = false
		remove()
		r.SetReady("", "")
	})
	if h = <-reported; !h.GetRuntimeReady() || !h.GetNetworkReady() || h.GetMessage() != "" {
		t.Errorf("reported %v", h)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
	if len(reported) != 0 {
		t.Errorf("reported once more: %v", <-reported)
	}
}
