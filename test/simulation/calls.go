package simulation

import (
	"context"
	"errors"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

// Bounds of runtime/cri.
const (
	callTimeout    = 2 * time.Minute
	sandboxTimeout = 4 * time.Minute
	lookTimeout    = 10 * time.Second
	drainTimeout   = 10 * time.Second
	twinTimeout    = 2 * time.Minute
	firstPause     = 100 * time.Millisecond
	maxPause       = 5 * time.Second
	maxPerforms    = 3
)

// performer stands for runtime/cri: it does the work of one intent on the world, with the same rules for doubt. It runs on
// the coroutine that calls it.
type performer struct {
	run *run
	// under are the calls under way that sleep: who takes one back wakes it.
	under map[*proc]context.Context
}

// call is one intent under way.
type call struct {
	*performer
	p       *proc
	w       *world
	ctx     context.Context
	intent  string
	uid     string
	inDoubt bool
}

type result struct {
	sandboxID, containerID, imageRef string
	actual                           *journaletv1.Resources
}

// failure is a definite outcome that is not success.
type failure struct {
	code journaletv1.CallError
	text string
}

func (f *failure) Error() string { return f.text }

func fail(code journaletv1.CallError, text string) error { return &failure{code, text} }

// Perform is calls.Performer.
func (f *performer) Perform(ctx context.Context, intentID, requester string, req *journaletv1.CallRequested, inDoubt bool) *journaletv1.CallFinished {
	c := &call{performer: f, p: f.run.clock.current, w: f.run.world, ctx: ctx, intent: intentID, uid: req.GetPodUid(), inDoubt: inDoubt}
	f.under[c.p] = ctx
	defer delete(f.under, c.p)
	f.run.judge.begins(intentID)
	once := c.runsOnce(req.GetStartContainer())
	c.at(once, onceBegins)
	defer c.at(once, onceUnrecorded)
	defer f.run.judge.isOver(intentID)
	res, err := c.do(req)
	var failed *failure
	if err != nil && ctx.Err() != nil && !errors.As(err, &failed) {
		return nil
	}
	out := &journaletv1.CallFinished{
		IntentId: intentID, Requester: requester, SandboxId: res.sandboxID, ContainerId: res.containerID, ImageRef: res.imageRef, Reported: res.actual,
	}
	switch {
	case errors.As(err, &failed):
		out.Error, out.Message = failed.code, failed.text
	case err != nil:
		out.Error, out.Message = journaletv1.CallError_CALL_ERROR_RUNTIME, err.Error()
	}
	return out
}

// cut wakes the calls that were taken back.
func (f *performer) cut() {
	for _, p := range f.run.life.procs {
		if ctx := f.under[p]; ctx != nil && ctx.Err() != nil {
			p.rouse()
		}
	}
}

func (c *call) do(req *journaletv1.CallRequested) (result, error) {
	switch k := req.GetWork().(type) {
	case *journaletv1.CallRequested_RunSandbox:
		return c.runSandbox(k.RunSandbox)
	case *journaletv1.CallRequested_StartContainer:
		return c.startContainer(k.StartContainer)
	case *journaletv1.CallRequested_StopContainer:
		return c.stopContainer(k.StopContainer)
	case *journaletv1.CallRequested_RemoveContainer:
		id := k.RemoveContainer.GetContainerId()
		return result{containerID: id}, c.settle(tookRemoval, callTimeout, func(bool) error { return c.remove(id) })
	case *journaletv1.CallRequested_StopSandbox:
		id := k.StopSandbox.GetSandboxId()
		return result{sandboxID: id}, c.settle(tookMaking, callTimeout, func(bool) error { return c.unlessMishap(func() { c.w.stopSandbox(c.uid, id) }) })
	case *journaletv1.CallRequested_RemoveSandbox:
		id := k.RemoveSandbox.GetSandboxId()
		return result{sandboxID: id}, c.settle(3*tookRemoval, callTimeout, func(bool) error {
			return c.unlessMishap(func() { c.w.stopSandbox(c.uid, id); c.w.removeSandbox(c.uid, id) })
		})
	case *journaletv1.CallRequested_PullImage:
		return c.pull(k.PullImage.GetImage())
	case *journaletv1.CallRequested_UpdateContainer:
		return c.updateContainer(k.UpdateContainer)
	case *journaletv1.CallRequested_RunHook:
		return c.runHook(k.RunHook)
	}
	// Folders and volumes: the node's own disk.
	c.p.sleep(between(c.w.noise, time.Millisecond, 10*time.Millisecond))
	if c.w.mishap() {
		return result{}, fail(journaletv1.CallError_CALL_ERROR_VOLUME, "device or resource busy")
	}
	if req.GetCleanPod() != nil {
		c.w.say(c.uid, nil)
	}
	return result{}, nil
}

func (c *call) remove(id string) error {
	return c.unlessMishap(func() { c.w.removeContainer(c.uid, id) })
}

func (c *call) unlessMishap(do func()) error {
	if c.w.mishap() {
		return failedCall("device or resource busy")
	}
	do()
	return nil
}

// pause is the wait between two looks, doubling.
type pause time.Duration

func (c *call) pause(d *pause) error {
	if *d == 0 {
		*d = pause(firstPause)
	}
	c.p.sleep(time.Duration(*d))
	*d = min(2**d, pause(maxPause))
	return c.ctx.Err()
}

// settle makes an idempotent request until its answer is definite.
func (c *call) settle(took, timeout time.Duration, do func(gone bool) error) error {
	for d := pause(0); ; {
		err := c.w.rpc(c.p, took, timeout, do)
		if err == nil || errors.Is(err, errNotFound) || !isDoubt(err) {
			return err
		}
		if c.ctx.Err() != nil {
			return c.ctx.Err()
		}
		if err := c.pause(&d); err != nil {
			return err
		}
	}
}

// discover brings an intent that makes something to its end (runtime/cri/doubt.go).
func (c *call) discover(perform func() (string, error), look func() (string, bool, error)) (string, error) {
	var last error
	var twinEnd time.Duration
	d := pause(0)
	for performed := 0; ; {
		if c.inDoubt || last != nil {
			var id string
			var found bool
			if err := c.settle(tookLook, lookTimeout, func(bool) (err error) { id, found, err = look(); return err }); err != nil || found {
				return id, err
			}
		}
		if performed == maxPerforms {
			return "", fail(journaletv1.CallError_CALL_ERROR_NOT_DONE, "the runtime did not do it: "+last.Error())
		}
		id, err := perform()
		switch {
		case err == nil:
			return id, nil
		case c.ctx.Err() != nil:
			return "", c.ctx.Err()
		case isReserved(err):
			if now := c.w.clock.uptime; twinEnd == 0 {
				twinEnd = now + twinTimeout
			} else if now > twinEnd {
				return "", fail(journaletv1.CallError_CALL_ERROR_RUNTIME, err.Error())
			}
		case isDoubt(err):
			performed++
		default:
			return "", err
		}
		last = err
		if err := c.pause(&d); err != nil {
			return "", err
		}
	}
}

func heldBy(twin string) error {
	if twin == "" {
		return nil
	}
	return fail(journaletv1.CallError_CALL_ERROR_RUNTIME, twin+" holds the attempt and was made by another call")
}

func (c *call) runSandbox(k *journaletv1.RunSandbox) (result, error) {
	looked := c.w.clock.uptime
	if !c.inDoubt {
		later := ""
		if err := c.settle(tookLook, lookTimeout, func(bool) error {
			later, looked = c.laterSandbox(k.GetAttempt()), c.w.clock.uptime
			return nil
		}); err != nil {
			return result{}, err
		}
		if err := heldBy(later); err != nil {
			return result{}, err
		}
	}
	id, err := c.discover(func() (string, error) {
		id := ""
		err := c.w.rpc(c.p, tookSandbox, sandboxTimeout, func(gone bool) (err error) {
			if c.w.mishap() {
				return failedCall("failed to set up the sandbox's network")
			}
			id, err = c.w.makeSandbox(c.uid, c.intent, k, gone, looked)
			return err
		})
		return id, err
	}, func() (string, bool, error) {
		twin := ""
		looked = c.w.clock.uptime
		for _, x := range c.w.of(c.uid).sandboxes {
			switch {
			case x.intent == c.intent && !x.ready:
				return x.id, false, fail(journaletv1.CallError_CALL_ERROR_SANDBOX_GONE, "sandbox "+x.id+" was given up or has died")
			case x.intent == c.intent:
				return x.id, true, nil
			case x.attempt >= k.GetAttempt():
				twin = x.id
			}
		}
		return "", false, heldBy(twin)
	})
	return result{sandboxID: id}, err
}

// laterSandbox is one of the pod's of this attempt or a later one, empty if there is none (cri's noLaterSandbox).
func (c *call) laterSandbox(attempt uint32) string {
	for _, x := range c.w.of(c.uid).sandboxes {
		if x.attempt >= attempt {
			return x.id
		}
	}
	return ""
}

func (c *call) startContainer(k *journaletv1.StartContainer) (result, error) {
	m, spec := c.sized(k)
	if spec == nil {
		return result{}, fail(journaletv1.CallError_CALL_ERROR_CONFIG, "the manifest has no container "+k.GetContainer())
	}
	switch k.GetPart() {
	case journaletv1.StartPart_START_PART_CREATE:
		res, _, err := c.makeContainer(k, m, spec)
		return res, err
	case journaletv1.StartPart_START_PART_START:
		return c.startMade(k)
	}
	res, err := c.makeAndStart(k, m, spec)
	if err == nil || !c.inDoubt || !strings.Contains(err.Error(), cutShort) {
		return res, err
	}
	if err := c.settle(tookRemoval, callTimeout, func(bool) error { return c.remove(res.containerID) }); err != nil {
		return res, fail(journaletv1.CallError_CALL_ERROR_START, err.Error())
	}
	c.inDoubt = false
	return c.makeAndStart(k, m, spec)
}

func (c *call) makeAndStart(k *journaletv1.StartContainer, m *corev1.Pod, spec *corev1.Container) (result, error) {
	res, fresh, err := c.makeContainer(k, m, spec)
	if err != nil {
		return res, err
	}
	return res, c.start(res.containerID, fresh, neverAgain(m, spec))
}

// makeContainer makes a container, or finds the one that this intent made.
func (c *call) makeContainer(k *journaletv1.StartContainer, m *corev1.Pod, spec *corev1.Container) (res result, fresh bool, err error) {
	id, err := c.discover(func() (string, error) {
		id, err := c.create(k, m, spec)
		fresh = err == nil
		return id, err
	}, func() (string, bool, error) {
		twin := ""
		for _, x := range c.w.of(c.uid).containers {
			switch {
			case x.intent == c.intent:
				return x.id, true, nil
			case x.name == k.GetContainer() && x.attempt == k.GetAttempt():
				twin = x.id
			}
		}
		return "", false, heldBy(twin)
	})
	if err != nil {
		var failed *failure
		if !errors.As(err, &failed) && !isDoubt(err) {
			err = fail(journaletv1.CallError_CALL_ERROR_CREATE, err.Error())
		}
		return result{}, false, err
	}
	return result{containerID: id, sandboxID: k.GetSandboxId()}, fresh, nil
}

func (c *call) create(k *journaletv1.StartContainer, m *corev1.Pod, spec *corev1.Container) (string, error) {
	if err := c.checkSandbox(k.GetSandboxId()); err != nil {
		return "", err
	}
	has := false
	if err := c.settle(tookLook, callTimeout, func(bool) error { has = c.w.images[spec.Image]; return nil }); err != nil {
		return "", err
	}
	switch {
	case !has && k.GetPulledForStart():
		return "", fail(journaletv1.CallError_CALL_ERROR_CREATE, "image "+spec.Image+" was pulled, but the runtime does not have it")
	case !has:
		return "", fail(journaletv1.CallError_CALL_ERROR_IMAGE_NOT_PRESENT, "image "+spec.Image+" is not present on the node")
	}
	id, once := "", neverAgain(m, spec)
	c.at(once, onceUnderWay)
	err := c.w.rpc(c.p, tookMaking, callTimeout, func(gone bool) (err error) {
		if c.w.mishap() {
			return failedCall("failed to make the container's snapshot")
		}
		id, err = c.w.makeContainer(c.uid, c.intent, k, m, spec, gone)
		c.at(once, onceDone)
		return err
	})
	return id, err
}
