package cri

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/journalet/journalet/messages/journaletv1"
)

// maxPerforms bounds how often one intent is performed anew after its call timed out or lost its connection, and a look
// at a runtime that answers found nothing of it. Beyond, the call has failed: who asked decides when to try again.
const maxPerforms = 3

// isDoubt tells whether an error leaves open what became of the call. The runtime itself uses these codes too, for
// its own deadlines; a look settles both.
func isDoubt(err error) bool {
	switch status.Code(err) {
	case codes.DeadlineExceeded, codes.Unavailable, codes.Canceled:
		return true
	}
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

func isNotFound(err error) bool { return status.Code(err) == codes.NotFound }

// isReserved tells whether the runtime holds the name of what was to be made for another call, perhaps our own of
// before. There is no code for it: containerd and CRI-O say so in words alone.
func isReserved(err error) bool {
	if status.Code(err) == codes.AlreadyExists {
		return true
	}
	m := status.Convert(err).Message()
	return strings.Contains(m, "is reserved for") || strings.Contains(m, "name is reserved")
}

// messageOf is what the runtime said, without gRPC's wrapping.
func messageOf(err error) string {
	if s, ok := status.FromError(err); ok {
		return s.Message()
	}
	return err.Error()
}

// isAway tells whether there was nobody to make a call, or the connection was lost.
func isAway(err error) bool { return status.Code(err) == codes.Unavailable }

func clip(s string) string { return clipTo(s, maxMessageBytes) }

// clipTo is the beginning of a text, valid where the text may not be.
func clipTo(s string, most int) string {
	return strings.ToValidUTF8(s[:min(len(s), most)], "")
}

// backOff is the wait between looks, doubling up to its bound.
type backOff struct {
	clock     Clock
	next, max time.Duration
	// level of what is said while waiting: the first time counts, the rest is repetition.
	level slog.Level
}

func (c *call) backOff() *backOff {
	return &backOff{clock: c.clock, next: c.opts.Timeouts.BackOff, max: c.opts.Timeouts.MaxBackOff, level: slog.LevelWarn}
}

func (b *backOff) wait(ctx context.Context) error {
	d := b.next
	b.next, b.level = min(2*b.next, b.max), slog.LevelDebug
	return Wait(ctx, b.clock, d)
}

// once makes one call with a deadline.
func once[T any](ctx context.Context, timeout time.Duration, f func(context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return f(ctx)
}

// unhurried is once for a call that makes something. When the agent stops, it lets the call end for a while, because runtimes
// undo or fail what their caller turns away from: containerd counts a start cut short as a start that failed.
func unhurried[T any](ctx context.Context, c *call, timeout time.Duration, f func(context.Context) (T, error)) (T, error) {
	if err := ctx.Err(); err != nil {
		var zero T
		return zero, err
	}
	calling, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	defer context.AfterFunc(ctx, func() { c.clock.AfterFunc(c.opts.Timeouts.Drain, cancel) })()
	return f(calling)
}

// settle makes an idempotent call until its answer is definite: an answer, an error that is no doubt, or the end of
// ctx. It waits for as long as the runtime is away or hangs.
func settle[T any](ctx context.Context, c *call, what string, timeout time.Duration, f func(context.Context) (T, error)) (T, error) {
	var zero T
	for b := c.backOff(); ; {
		v, err := once(ctx, timeout, f)
		if err == nil || !isDoubt(err) {
			return v, err
		}
		if ctx.Err() != nil {
			return zero, ctx.Err()
		}
		c.log.Log(ctx, b.level, "no answer from the runtime; asking again", "call", what, "error", messageOf(err))
		if err := b.wait(ctx); err != nil {
			return zero, err
		}
	}
}

// performer makes an object and returns its id; looker tells whether the object that carries the intent is there.
type (
	performer func(context.Context) (id string, err error)
	looker    func(context.Context) (id string, found bool, err error)
)

// discover brings an intent that makes an object to its end: perform it, and while the outcome is open, look and
// perform again. A name that the runtime holds may belong to our own earlier call, which goes on, and will show, or will
// give up because its caller went away, and give the name back; so both looking and performing go on for a while.
func (c *call) discover(ctx context.Context, perform performer, look looker) (string, error) {
	var last error
	var twinEnd time.Time
	b := c.backOff()
	for performed := 0; ; {
		if c.inDoubt || last != nil {
			id, found, err := c.lookUntilAnswered(ctx, look)
			if err != nil || found {
				return id, err
			}
		}
		if performed == maxPerforms {
			return "", retryable(journaletv1.CallError_CALL_ERROR_NOT_DONE,
				fmt.Sprintf("the runtime did not do it in %d attempts, the last of which ended in: %s", performed, messageOf(last)))
		}
		id, err := perform(ctx)
		switch {
		case err == nil:
			return id, nil
		case ctx.Err() != nil:
			return "", ctx.Err()
		case isReserved(err):
			if now := c.clock.Now(); twinEnd.IsZero() {
				twinEnd = now.Add(c.opts.Timeouts.Twin)
			} else if now.After(twinEnd) {
				return "", retryable(journaletv1.CallError_CALL_ERROR_RUNTIME, messageOf(err))
			}
		case isDoubt(err):
			performed++
		default:
			return "", err
		}
		c.log.Log(ctx, b.level, "call in doubt; looking at the world", "error", messageOf(err))
		last = err
		if err := b.wait(ctx); err != nil {
			return "", err
		}
	}
}

func (c *call) lookUntilAnswered(ctx context.Context, look looker) (string, bool, error) {
	type answer struct {
		id    string
		found bool
	}
	a, err := settle(ctx, c, "look", c.opts.Timeouts.Look, func(ctx context.Context) (answer, error) {
		id, found, err := look(ctx)
		return answer{id, found}, err
	})
	return a.id, a.found, err
}
