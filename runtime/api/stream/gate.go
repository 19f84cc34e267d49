package stream

import (
	"io"
	"time"
)

// gateWait bounds how long the end of a session waits for a write that is under way: its reader may have stopped.
const gateWait = 100 * time.Millisecond

// gate passes writes on until it is closed: the libraries may still copy when a session has returned.
type gate struct {
	to   io.Writer
	turn chan struct{} // holds a value while nobody writes
	shut chan struct{}
}

// gated returns a gate to a writer, or nil and a function that does nothing.
func gated(to io.Writer) (io.Writer, func()) {
	if to == nil {
		return nil, func() {}
	}
	g := &gate{to: to, turn: make(chan struct{}, 1), shut: make(chan struct{})}
	g.turn <- struct{}{}
	return g, g.close
}

func (g *gate) Write(b []byte) (int, error) {
	<-g.turn
	defer func() { g.turn <- struct{}{} }()
	select {
	case <-g.shut:
		return 0, io.ErrClosedPipe
	default:
		return g.to.Write(b)
	}
}

func (g *gate) close() {
	select {
	case <-g.turn:
		close(g.shut)
		g.turn <- struct{}{}
	case <-time.After(gateWait):
		close(g.shut)
	}
}
