package simulation

import (
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

// The calls that mostly wait: stops, pulls, hooks.

// stopContainer asks again, with the grace that is left, until the runtime has answered.
func (c *call) stopContainer(k *journaletv1.StopContainer) (result, error) {
	res := result{containerID: k.GetContainerId()}
	grace := max(k.GetGrace().AsDuration(), 0)
	end := c.w.clock.Now().Add(grace)
	for d := pause(0); ; {
		left := min(max(end.Sub(c.w.clock.Now()), 0), grace)
		err := c.stopOnce(k.GetContainerId(), left)
		switch {
		case err == nil || errors.Is(err, errNotFound):
			return res, nil
		case c.ctx.Err() != nil:
			return result{}, c.ctx.Err()
		case !isDoubt(err):
			return res, err
		}
		if err := c.pause(&d); err != nil {
			return result{}, err
		}
	}
}

// stopOnce is one StopContainer: SIGTERM, the grace, SIGKILL. A runtime whose caller goes away may leave out the kill.
func (c *call) stopOnce(id string, grace time.Duration) error {
	waiting := true
	defer func() { waiting = false }()
	run := c.w.run
	var x *container
	err := c.w.rpc(c.p, tookMaking, grace+callTimeout, func(bool) error {
		if x = c.w.findContainer(c.uid, id); x == nil {
			return errNotFound
		}
		if c.w.mishap() {
			return failedCall("ttrpc: closed")
		}
		c.w.term(x)
		// CRI counts in seconds.
		x.kill = c.w.clock.after(nil, (grace + time.Second - 1).Truncate(time.Second), func() {
			if x.alive() && c.w.run == run && (waiting && !c.p.of.over || chance(c.w.noise, 2)) {
				c.w.judge.killed(c.w, x)
				c.w.exit(x, 137, "Error")
			}
		})
		return nil
	})
	if err != nil {
		return err
	}
	deadline := c.w.clock.uptime + grace + callTimeout
	for x.alive() {
		left := deadline - c.w.clock.uptime
		switch {
		case c.ctx.Err() != nil:
			return c.ctx.Err()
		case c.w.run != run:
			return errAway
		case left <= 0:
			return errLate
		}
		x.stoppers = append(x.stoppers, c.p)
		c.p.sleep(left)
	}
	return nil
}

// pull pulls an image: it takes its time, and asks again while the runtime is away.
func (c *call) pull(image string) (result, error) {
	err := c.settle(between(c.w.noise, 200*time.Millisecond, 15*time.Second), 30*time.Minute, func(bool) error {
		if !c.w.registryUp || c.w.mishap() {
			return failedCall("registry does not answer")
		}
		c.w.images[image] = true
		return nil
	})
	if err != nil && c.ctx.Err() == nil {
		return result{}, fail(journaletv1.CallError_CALL_ERROR_REGISTRY_UNAVAILABLE, err.Error())
	}
	return result{imageRef: "sha256:" + image}, err
}

// runHook runs a hook for as long as it takes, or may take.
func (c *call) runHook(k *journaletv1.RunHook) (result, error) {
	res := result{containerID: k.GetContainerId()}
	spec := findSpec(c.run.manifests.byDigest[k.GetDigest()], k.GetContainer())
	var h *corev1.LifecycleHandler
	if spec != nil && spec.Lifecycle != nil {
		h = spec.Lifecycle.PostStart
		if k.GetKind() == journaletv1.HookKind_HOOK_KIND_PRE_STOP {
			h = spec.Lifecycle.PreStop
		}
	}
	if h == nil {
		return res, fail(journaletv1.CallError_CALL_ERROR_CONFIG, "the manifest has no such hook for container "+k.GetContainer())
	}
	x := c.w.findContainer(c.uid, k.GetContainerId())
	took, ok := time.Duration(0), false
	if x != nil && x.alive() {
		took, ok = x.hook(h, k.GetKind())
	}
	if t := k.GetTimeout(); t != nil && t.AsDuration() < took {
		took, ok = max(0, t.AsDuration()), false
	}
	end := c.w.clock.uptime + took
	for c.w.clock.uptime < end && c.ctx.Err() == nil && (x.alive() || h.Sleep != nil) {
		if h.Sleep == nil {
			x.stoppers = append(x.stoppers, c.p)
		}
		c.p.sleep(end - c.w.clock.uptime)
	}
	switch {
	case c.ctx.Err() != nil:
		return res, c.ctx.Err()
	case ok && (x.alive() || h.Sleep != nil):
		return res, nil
	}
	ended := false
	if err := c.settle(tookLook, lookTimeout, func(bool) error {
		x := c.w.findContainer(c.uid, k.GetContainerId())
		ended = x == nil || x.state == exited
		return nil
	}); err != nil {
		return res, err
	}
	if ended {
		return res, fail(journaletv1.CallError_CALL_ERROR_NOT_DONE, "the container has ended")
	}
	return res, fail(journaletv1.CallError_CALL_ERROR_HOOK, "the hook failed")
}
