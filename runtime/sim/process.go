package sim

import (
	"context"
	"fmt"
	"path"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	cri "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// process plays a Behaviour by the clock: at most one timer is armed at any time, for the next effect or the end.
type process struct {
	b     Behaviour
	began time.Time
	next  int // index of the next effect
	stop  func() bool
	log   *logWriter
}

func (s *runtimeService) StartContainer(
	_ context.Context, req *cri.StartContainerRequest,
) (*cri.StartContainerResponse, error) {
	r := s.r
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.findContainer(req.GetContainerId())
	if c == nil {
		return nil, notFound("container", req.GetContainerId())
	}
	if c.state != cri.ContainerState_CONTAINER_CREATED {
		return nil, status.Errorf(codes.Unknown, "failed to set starting state for container %q: it is %s", c.id, c.state)
	}
	if sb := r.state.sandboxes[c.sandboxID]; sb == nil || !sb.ready {
		return nil, r.failStart(c, fmt.Sprintf("sandbox container %q is not running", c.sandboxID))
	}
	b := r.behaviour(c)
	if b.StartError != "" {
		return nil, r.failStart(c, b.StartError)
	}
	log, err := openLog(c.logPath)
	if err != nil {
		return nil, r.failStart(c, fmt.Sprintf("failed to create container loggers: %v", err))
	}
	c.state, c.startedAt = cri.ContainerState_CONTAINER_RUNNING, r.stamp()
	r.publish(c.id, c.sandboxID, cri.ContainerEventType_CONTAINER_STARTED_EVENT)
	c.process = &process{b: b, began: r.clock.Now(), log: log}
	r.play(c)
	return &cri.StartContainerResponse{}, nil
}

// failStart records a start that failed: the container is EXITED at once, with no start time and no events.
func (r *Runtime) failStart(c *container, why string) error {
	c.state, c.finishedAt = cri.ContainerState_CONTAINER_EXITED, r.stamp()
	c.exitCode, c.reason, c.message = exitCodeStartError, reasonStartError, why
	c.markStopped()
	return status.Error(codes.Unknown, why)
}

// behaviour returns what Options define, or else a guess from the command line.
func (r *Runtime) behaviour(c *container) Behaviour {
	if r.opts.Behaviour != nil {
		if b, ok := r.opts.Behaviour(c.config); ok {
			return b
		}
	}
	return Interpret(c.config)
}

// play does what is due of a running container's behaviour and arms the timer for what is not. r.mu is held.
func (r *Runtime) play(c *container) {
	p := c.process
	elapsed := r.clock.Now().Sub(p.began)
	for ; p.next < len(p.b.Effects); p.next++ {
		e := p.b.Effects[p.next]
		if p.b.RunFor >= 0 && e.After > p.b.RunFor {
			break
		}
		if e.After > elapsed {
			r.arm(c, e.After-elapsed)
			return
		}
		r.apply(c, e)
	}
	switch {
	case p.b.RunFor < 0:
	case p.b.RunFor > elapsed:
		r.arm(c, p.b.RunFor-elapsed)
	case p.b.OOM:
		r.exit(c, exitCodeKILL, reasonOOM)
	default:
		r.exit(c, p.b.ExitCode, "")
	}
}

func (r *Runtime) arm(c *container, d time.Duration) {
	p := c.process
	p.stop = r.clock.AfterFunc(d, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		// Only if the process of then is still the container's process: a stop may have won the lock.
		if c.process == p && c.state == cri.ContainerState_CONTAINER_RUNNING {
			r.play(c)
		}
	})
}

// apply lets one effect happen. r.mu is held.
func (r *Runtime) apply(c *container, e Effect) {
	if e.File == "" {
		c.show(e)
		if err := c.process.log.write(r.clock.Now(), e.Stream, e.Text); err != nil {
			r.log.Debug("log line lost", "container", c.id, "error", err)
		}
		return
	}
	if host, ok := hostPath(c.config, e.File, true); ok && r.opts.WriteMounts {
		if err := writeHost(host, e); err != nil {
			r.log.Debug("write through a mount failed", "container", c.id, "error", err)
		}
		return
	}
	c.files.apply(path.Clean(e.File), e)
}

// exit ends a container's process. r.mu is held.
func (r *Runtime) exit(c *container, code int32, reason string) {
	c.haltProcess()
	c.state, c.finishedAt, c.exitCode, c.reason = cri.ContainerState_CONTAINER_EXITED, r.stamp(), code, reason
	c.markStopped()
	r.publish(c.id, c.sandboxID, cri.ContainerEventType_CONTAINER_STOPPED_EVENT)
}

// haltProcess stops the process without an event.
func (c *container) haltProcess() {
	if c.process == nil {
		return
	}
	if c.process.stop != nil {
		c.process.stop()
	}
	c.process.log.close()
	c.process = nil
}

// killNow is SIGKILL for a container that may run, and nothing for others. r.mu is held.
func (r *Runtime) killNow(c *container) {
	if c.state == cri.ContainerState_CONTAINER_RUNNING || c.state == cri.ContainerState_CONTAINER_UNKNOWN {
		r.exit(c, exitCodeKILL, "")
	}
}

// terminate is the stop signal. The first one counts, later ones are not sent, as with containerd. r.mu is held.
func (r *Runtime) terminate(c *container) {
	if c.signalled || c.process == nil {
		return
	}
	c.signalled = true
	p := c.process
	signal := stopSignal(c.config)
	switch {
	case signal == cri.Signal_SIGNAL_SIGKILL:
		r.exit(c, exitCodeKILL, "")
	case p.b.IgnoreTERM:
	case p.b.OnTERM != nil:
		if p.stop != nil {
			p.stop()
		}
		c.process = &process{b: *p.b.OnTERM, began: r.clock.Now(), log: p.log}
		r.play(c)
	default:
		r.exit(c, exitCodeOf(signal), "")
	}
}

// exitCodeOf is what a process ends with that dies of a signal. Signals whose number differs from machine to machine
// count as SIGTERM.
func exitCodeOf(signal cri.Signal) int32 {
	numbers := map[cri.Signal]int32{
		cri.Signal_SIGNAL_SIGHUP: 1, cri.Signal_SIGNAL_SIGINT: 2, cri.Signal_SIGNAL_SIGQUIT: 3, cri.Signal_SIGNAL_SIGABRT: 6,
	}
	if n, ok := numbers[signal]; ok {
		return 128 + n
	}
	return exitCodeTERM
}

func (s *runtimeService) StopContainer(
	ctx context.Context, req *cri.StopContainerRequest,
) (*cri.StopContainerResponse, error) {
	if req.GetContainerId() == "" {
		return nil, errEmptyID
	}
	r := s.r
	r.mu.Lock()
	c := r.findContainer(req.GetContainerId())
	if c == nil {
		r.mu.Unlock()
		return &cri.StopContainerResponse{}, nil
	}
	if c.state == cri.ContainerState_CONTAINER_RUNNING && req.GetTimeout() > 0 {
		r.terminate(c)
		stopped := c.stopped
		r.mu.Unlock()
		// A caller that goes away before the grace is over leaves the container alive: no SIGKILL follows.
		if err := r.wait(ctx, time.Duration(req.GetTimeout())*time.Second, stopped); err != nil {
			return nil, err
		}
		r.mu.Lock()
	}
	defer r.mu.Unlock()
	r.killNow(c)
	return &cri.StopContainerResponse{}, nil
}

// Kill ends a running container's process behind the agent's back with the given exit code. It fails with NotFound or
// FailedPrecondition (not running).
func (r *Runtime) Kill(containerID string, exitCode int32) error {
	return r.kill(containerID, exitCode, "")
}

// KillOOM ends a running container as the kernel's OOM killer does.
func (r *Runtime) KillOOM(containerID string) error {
	return r.kill(containerID, exitCodeKILL, reasonOOM)
}

func (r *Runtime) kill(id string, code int32, reason string) error {
	return r.happens(id, func(c *container) { r.exit(c, code, reason) })
}

// LoseTrack has a running container show the state UNKNOWN, as containerd does where it does not reach its shim. The
// process runs on. It fails as Kill.
func (r *Runtime) LoseTrack(containerID string) error {
	return r.happens(containerID, func(c *container) { c.state = cri.ContainerState_CONTAINER_UNKNOWN })
}

// happens has something happen to a running container behind the agent's back.
func (r *Runtime) happens(id string, what func(*container)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.findContainer(id)
	if c == nil {
		return notFound("container", id)
	}
	if c.state != cri.ContainerState_CONTAINER_RUNNING {
		return status.Errorf(codes.FailedPrecondition, "container %q is %s, and not running", id, c.state)
	}
	what(c)
	return nil
}

func (s *runtimeService) ReopenContainerLog(
	_ context.Context, req *cri.ReopenContainerLogRequest,
) (*cri.ReopenContainerLogResponse, error) {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	c := s.r.findContainer(req.GetContainerId())
	if c == nil {
		return nil, notFound("container", req.GetContainerId())
	}
	if c.state != cri.ContainerState_CONTAINER_RUNNING || c.process == nil {
		return nil, status.Error(codes.Unknown, "container is not running")
	}
	log, err := openLog(c.logPath)
	if err != nil {
		return nil, status.Errorf(codes.Unknown, "reopen log: %v", err)
	}
	c.process.log.close()
	c.process.log = log
	return &cri.ReopenContainerLogResponse{}, nil
}

// ExecSync plays a command in a running container: its output is complete when its time is over by the clock. A
// command that isn't understood succeeds at once, silently; a command that would not end runs into the timeout.
func (s *runtimeService) ExecSync(ctx context.Context, req *cri.ExecSyncRequest) (*cri.ExecSyncResponse, error) {
	r := s.r
	r.mu.Lock()
	c := r.findContainer(req.GetContainerId())
	if c == nil {
		r.mu.Unlock()
		return nil, notFound("container", req.GetContainerId())
	}
	if c.state != cri.ContainerState_CONTAINER_RUNNING {
		r.mu.Unlock()
		return nil, status.Errorf(codes.Unknown, "container is in %s state", c.state)
	}
	b := interpretExec(c.config, c.files, req.GetCmd())
	stopped := c.stopped
	r.mu.Unlock()

	limit := time.Duration(req.GetTimeout()) * time.Second
	timedOut := limit > 0 && b.RunFor > limit
	if timedOut {
		b.RunFor = limit
	}
	if err := r.wait(ctx, b.RunFor, stopped); err != nil {
		return nil, err
	}
	select {
	case <-stopped:
		// What runs in a container dies with it.
		return &cri.ExecSyncResponse{ExitCode: exitCodeKILL}, nil
	default:
	}
	if timedOut {
		return nil, status.Errorf(codes.DeadlineExceeded, "failed to exec in container: timeout %s exceeded", limit)
	}
	return r.finishExec(c, b), nil
}

// wait lets d pass by the clock, or less if stop is closed, or fails with the context.
func (r *Runtime) wait(ctx context.Context, d time.Duration, stop <-chan struct{}) error {
	if d == 0 {
		return nil
	}
	fired := make(chan struct{})
	end := r.clock.AfterFunc(d, func() { close(fired) })
	defer end()
	select {
	case <-fired:
		return nil
	case <-stop:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

func (r *Runtime) finishExec(c *container, b Behaviour) *cri.ExecSyncResponse {
	r.mu.Lock()
	defer r.mu.Unlock()
	resp := &cri.ExecSyncResponse{ExitCode: b.ExitCode}
	for _, e := range b.Effects {
		switch {
		case e.File != "" && c.process != nil:
			r.apply(c, e)
		case e.File != "":
		case e.Stream == Stderr:
			resp.Stderr = append(resp.Stderr, e.Text...)
		default:
			resp.Stdout = append(resp.Stdout, e.Text...)
		}
	}
	return resp
}
