package cri

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/calls"
	"github.com/journalet/journalet/runtime/clock"
)

// maxAttempts bounds how often one intent is sent to the runtime after its call timed out or lost its connection and an
// inspection found no object of it. Then the call fails, and the requester decides when to try again.
const maxAttempts = 3

// isDoubt reports whether an error leaves the outcome of the call unknown. The runtime uses these codes for its own
// deadlines too; an inspection resolves both.
func isDoubt(err error) bool {
	switch status.Code(err) {
	case codes.DeadlineExceeded, codes.Unavailable, codes.Canceled:
		return true
	}
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

func isNotFound(err error) bool { return status.Code(err) == codes.NotFound }

// isUnavailable reports whether no runtime took the call, or the connection was lost.
func isUnavailable(err error) bool { return status.Code(err) == codes.Unavailable }

// isReserved reports whether the runtime holds the object's name for another call, perhaps an earlier one of ours.
// containerd and CRI-O have no code for it, only a message.
func isReserved(err error) bool {
	if status.Code(err) == codes.AlreadyExists {
		return true
	}
	m := status.Convert(err).Message()
	return strings.Contains(m, "is reserved for") || strings.Contains(m, "name is reserved")
}

// messageOf returns the runtime's message without gRPC's prefix, with a remedy where there is one.
func messageOf(err error) string {
	if s, ok := status.FromError(err); ok {
		return withRemedy(s.Message())
	}
	return err.Error()
}

// backOff is the wait between attempts. It doubles up to its bound.
type backOff struct {
	clock     clock.Clock
	next, max time.Duration
	// level is for the log line about the wait: only the first one is a warning.
	level slog.Level
}

func (c *call) backOff() *backOff {
	t := c.opts.Timeouts
	return &backOff{clock: c.clock, next: t.BackOff, max: t.MaxBackOff, level: slog.LevelWarn}
}

func (b *backOff) wait(ctx context.Context) error {
	d := b.next
	b.next, b.level = min(2*b.next, b.max), slog.LevelDebug
	return clock.Wait(ctx, b.clock, d)
}

// rpc is a method of a CRI client.
type rpc[Req, Resp any] = func(context.Context, *Req, ...grpc.CallOption) (*Resp, error)

// once makes one call with a deadline.
func once[Req, Resp any](
	ctx context.Context, c *call, timeout time.Duration, method rpc[Req, Resp], req *Req,
) (*Resp, error) {
	ctx, cancel := clock.WithTimeout(ctx, c.clock, timeout)
	defer cancel()
	return method(ctx, req)
}

// onceDrained is once for a call that creates or starts an object, or takes its network away. When the agent stops, the
// call gets Timeouts.Drain to end, because runtimes undo or fail a call whose client has gone: containerd counts such a
// start as a failed one.
func onceDrained[Req, Resp any](
	ctx context.Context, c *call, timeout time.Duration, method rpc[Req, Resp], req *Req,
) (*Resp, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	callCtx, cancel := clock.WithTimeout(context.WithoutCancel(ctx), c.clock, timeout)
	defer cancel()
	defer context.AfterFunc(ctx, func() { c.clock.AfterFunc(c.opts.Timeouts.Drain, cancel) })()
	return method(callCtx, req)
}

// retry repeats an idempotent call until it has a definite result: a response, an error that leaves no doubt, or the
// end of ctx. It waits as long as the runtime is unavailable or hangs. name is for the log.
func retry[Req, Resp any](
	ctx context.Context, c *call, name string, timeout time.Duration, method rpc[Req, Resp], req *Req,
) (*Resp, error) {
	return retryFunc(ctx, c, name, timeout, func(ctx context.Context) (*Resp, error) { return method(ctx, req) })
}

// retryFunc is retry for a function.
func retryFunc[T any](
	ctx context.Context, c *call, name string, timeout time.Duration, f func(context.Context) (T, error),
) (T, error) {
	attempt := func() (T, error) {
		ctx, cancel := clock.WithTimeout(ctx, c.clock, timeout)
		defer cancel()
		return f(ctx)
	}
	for b := c.backOff(); ; {
		v, err := attempt()
		if err == nil || !isDoubt(err) {
			return v, err
		}
		if ctx.Err() != nil {
			return v, ctx.Err()
		}
		c.Log.Log(ctx, b.level, "no response from the runtime; retrying", "call", name, "error", messageOf(err))
		if err := b.wait(ctx); err != nil {
			return v, err
		}
	}
}

// creator creates an object and returns its id. finder finds the object that carries the intent; id is "" if no object
// does.
type (
	creator func(context.Context) (id string, err error)
	finder  func(context.Context) (id string, err error)
)

// createOrFind creates the object of an intent. While the outcome is in doubt, it inspects the runtime and creates
// again. A name that the runtime holds may belong to an earlier call of ours that is still under way: either its object
// appears, or the runtime cancels that call and releases the name. So both are repeated for Timeouts.ReservedName.
func (c *call) createOrFind(ctx context.Context, create creator, find finder) (string, error) {
	var last error
	var reservedEnd time.Time
	b := c.backOff()
	for attempts := 0; ; {
		if c.InDoubt || last != nil {
			id, err := c.retryFind(ctx, find)
			if err != nil || id != "" {
				return id, err
			}
		}
		if attempts == maxAttempts {
			return "", calls.Retryable(journaletv1.CallError_CALL_ERROR_NOT_DONE,
				fmt.Sprintf("the runtime did not do it in %d attempts; the last one ended in: %s", attempts, messageOf(last)))
		}
		id, err := create(ctx)
		switch {
		case err == nil:
			return id, nil
		case ctx.Err() != nil:
			return "", ctx.Err()
		case isReserved(err):
			if now := c.clock.Now(); reservedEnd.IsZero() {
				reservedEnd = now.Add(c.opts.Timeouts.ReservedName)
			} else if now.After(reservedEnd) {
				return "", calls.Retryable(journaletv1.CallError_CALL_ERROR_RUNTIME, messageOf(err))
			}
		case isDoubt(err):
			attempts++
		default:
			return "", err
		}
		c.Log.Log(ctx, b.level, "call in doubt; inspecting the runtime", "error", c.Redact(messageOf(err)))
		last = err
		if err := b.wait(ctx); err != nil {
			return "", err
		}
	}
}

func (c *call) retryFind(ctx context.Context, find finder) (string, error) {
	return retryFunc(ctx, c, "find", c.opts.Timeouts.Inspect, find)
}
