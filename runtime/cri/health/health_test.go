package health_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cri/health"
	"github.com/journalet/journalet/runtime/sim"
)

// gate is a clock whose timers fire at a tick of the test.
type gate struct{ tick chan struct{} }

func (gate) Now() time.Time { return time.Unix(0, 0) }
func (g gate) AfterFunc(_ time.Duration, f func()) func() bool {
	stop := make(chan struct{})
	go func() {
		select {
		case <-g.tick:
			f()
		case <-stop:
		}
	}()
	return func() bool { close(stop); return true }
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
	g := gate{make(chan struct{})}
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
	g.tick <- struct{}{} // nothing changed, so nothing may be reported before the next change
	g.tick <- struct{}{}
	r.SetReady("", "no CNI configuration")
	g.tick <- struct{}{}
	if h = <-reported; !h.GetRuntimeReady() || h.GetNetworkReady() ||
		!strings.Contains(h.GetMessage(), "no CNI configuration") {
		t.Errorf("reported %v", h)
	}
	remove := r.Inject(sim.Fault{Method: "Status", Hang: true})
	g.tick <- struct{}{}
	if h = <-reported; h.GetRuntimeReady() || h.GetNetworkReady() || h.GetRuntimeName() != sim.RuntimeName ||
		!strings.Contains(h.GetMessage(), "does not respond") {
		t.Errorf("reported %v", h)
	}
	remove()
	r.SetReady("", "")
	g.tick <- struct{}{}
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
