package simulation

import (
	"errors"
	"strings"

	"github.com/journalet/journalet/messages/journaletv1"
)

// The start of a container that was made: by the call that made it, or by one of its own, at most once (runtime/cri's once.go).

// The runtime's words about a start that it gave up because its caller went away, and about one that came to no process.
const (
	cutShort  = "context canceled"
	notYetRun = "failed to create containerd task"
)

func (c *call) checkSandbox(id string) error {
	var x *sandbox
	if err := c.settle(tookLook, callTimeout, func(bool) error { x = c.w.findSandbox(c.uid, id); return nil }); err != nil {
		return err
	}
	if x == nil || !x.ready {
		return fail(journaletv1.CallError_CALL_ERROR_SANDBOX_GONE, "sandbox "+id+" is gone")
	}
	return nil
}

// startMade starts a container that an earlier call made. In doubt it is looked up.
func (c *call) startMade(k *journaletv1.StartContainer) (result, error) {
	id := k.GetContainerId()
	res := result{containerID: id, sandboxID: k.GetSandboxId()}
	if c.inDoubt {
		return res, c.settleStart(id)
	}
	if err := c.checkSandbox(k.GetSandboxId()); err != nil {
		return result{}, err
	}
	err := c.startOnce(id, true)
	switch {
	case err == nil:
		return res, nil
	case c.ctx.Err() != nil:
		return res, c.ctx.Err()
	case errors.Is(err, errNotFound):
		return result{}, fail(journaletv1.CallError_CALL_ERROR_NOT_DONE, "container "+id+" is gone before it was started")
	case isDoubt(err):
		return res, c.settleStart(id)
	}
	return res, fail(journaletv1.CallError_CALL_ERROR_START, err.Error())
}

func lostStart(why string) error { return fail(journaletv1.CallError_CALL_ERROR_START_LOST, why) }

// settleStart tells what became of a start whose answer is lost.
func (c *call) settleStart(id string) error {
	end := c.w.clock.uptime + drainTimeout
	for d := pause(0); ; {
		x, err := c.lookAt(id)
		switch {
		case errors.Is(err, errNotFound):
			return lostStart("container " + id + " is gone, and its start was in doubt")
		case err != nil:
			return err
		case x.state == created:
			if c.w.clock.uptime > end {
				return lostStart("the runtime shows the container as created, and its start was in doubt")
			}
		case x.state == exited && x.started.IsZero():
			return c.failedStart(id, x.reason)
		default:
			return nil
		}
		if err := c.pause(&d); err != nil {
			return err
		}
	}
}

// failedStart tells what a container that ended without having started says of its start.
func (c *call) failedStart(id, why string) error {
	switch {
	case !strings.Contains(why, cutShort):
		return fail(journaletv1.CallError_CALL_ERROR_START, why)
	case !strings.Contains(why, notYetRun):
		return lostStart(why)
	}
	if err := c.settle(tookRemoval, callTimeout, func(bool) error { return c.remove(id) }); err != nil {
		if c.ctx.Err() != nil {
			return c.ctx.Err()
		}
		return lostStart(why + "; and it cannot be removed: " + err.Error())
	}
	return fail(journaletv1.CallError_CALL_ERROR_NOT_DONE, why)
}

// lookAt is a copy of a container as the runtime shows it.
func (c *call) lookAt(id string) (x container, err error) {
	err = c.settle(tookLook, lookTimeout, func(bool) error {
		found := c.w.findContainer(c.uid, id)
		if found == nil {
			return errNotFound
		}
		x = *found
		return nil
	})
	return x, err
}

// startOnce is one StartContainer.
func (c *call) startOnce(id string, once bool) error {
	c.at(once, onceUnderWay)
	return c.w.rpc(c.p, tookMaking, callTimeout, func(gone bool) error {
		err := c.w.startContainer(c.uid, id, gone)
		c.at(once, onceDone)
		return err
	})
}

// start starts a container that was made, and looks first at one that is not fresh from this call.
func (c *call) start(id string, fresh, once bool) error {
	twinEnd := c.w.clock.uptime + twinTimeout
	var last error
	performed := 0
	for d := pause(0); ; {
		if !fresh {
			if started, err := c.hasStarted(id); err != nil || started {
				return err
			}
		}
		if performed == maxPerforms || last != nil && !isDoubt(last) && c.w.clock.uptime > twinEnd {
			return fail(journaletv1.CallError_CALL_ERROR_START, "the runtime did not start it: "+last.Error())
		}
		err := c.startOnce(id, once)
		switch {
		case err == nil:
			return nil
		case c.ctx.Err() != nil:
			return c.ctx.Err()
		case isDoubt(err):
			performed++
		case fresh:
			return fail(journaletv1.CallError_CALL_ERROR_START, err.Error())
		}
		last, fresh = err, false
		if err := c.pause(&d); err != nil {
			return err
		}
	}
}

func (c *call) hasStarted(id string) (bool, error) {
	x, err := c.lookAt(id)
	switch {
	case errors.Is(err, errNotFound):
		return false, fail(journaletv1.CallError_CALL_ERROR_NOT_DONE, "container "+id+" is gone before it was started")
	case err != nil:
		return false, err
	case x.state == exited && x.started.IsZero():
		return false, fail(journaletv1.CallError_CALL_ERROR_START, x.reason)
	}
	return x.state != created, nil
}
