package pleg

import (
	"errors"
	"fmt"
	"time"

	"github.com/journalet/journalet/messages/journaletv1"
)

// Healthy returns an error if the last successful relist is older than Threshold.
func (p *PLEG) Healthy() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.relisted.IsZero() {
		return errors.New("PLEG has not begun to relist")
	}
	if age := p.clock.Now().Sub(p.relisted); age > Threshold {
		return fmt.Errorf("PLEG is not healthy: pleg was last seen active %s ago; threshold is %s; "+
			"check whether the container runtime responds", age.Round(time.Second), Threshold)
	}
	return nil
}

// Observed returns the last observation of every pod, in no order. They must not be changed.
func (p *PLEG) Observed() []*journaletv1.PodObserved {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]*journaletv1.PodObserved, 0, len(p.pods))
	for _, s := range p.pods {
		if s.last != nil {
			out = append(out, s.last)
		}
	}
	return out
}

// Inspected reports whether what the runtime had of a pod when the agent started is stored in this run. It had nothing,
// or what the journal has, of a pod that the first relist does not find changed.
func (p *PLEG) Inspected(uid string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.pods[uid]
	return p.listed && (s == nil || !s.awaited)
}

// Current reports whether all pods are as the runtime shows them: it was listed in this run, and no inspection waits,
// is under way or has failed.
func (p *PLEG) Current() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.pods {
		if s.queued || s.inspecting || s.failed || s.expected {
			return false
		}
	}
	return p.listed
}
