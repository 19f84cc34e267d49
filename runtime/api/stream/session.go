package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"

	"github.com/go-logr/logr"
	gorilla "github.com/gorilla/websocket"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/client-go/util/exec"
	"k8s.io/klog/v2"
)

// Streams are the streams of a session. A stream that is nil is not opened.
type Streams struct {
	In       io.Reader
	Out, Err io.Writer
	// TTY has the process write everything to Out. Err is not used then.
	TTY bool
	// Sizes reports the sizes of the user's terminal, each as it changes; nil without one.
	Sizes remotecommand.TerminalSizeQueue
}

// ExitError is the error of a command that ended with an exit code other than 0.
type ExitError struct{ Code int }

func (e *ExitError) Error() string {
	return fmt.Sprintf("command terminated with exit code %d", e.Code)
}

// ErrLost is the error of a session whose connection broke: what became of the command is unknown.
var ErrLost = errors.New("the connection to the agent was lost")

// Query returns the query of an exec or attach with these streams. The command is empty for attach.
func (s *Streams) Query(command []string) url.Values {
	q := url.Values{}
	for name, on := range map[string]bool{"input": s.In != nil, "output": s.Out != nil, "error": s.Err != nil && !s.TTY,
		"tty": s.TTY} {
		if on {
			q.Set(name, "1")
		}
	}
	if len(command) > 0 {
		q["command"] = command
	}
	return q
}

// Session runs a session of exec or attach on a path of PodPath and returns when it has ended, with an ExitError if the
// command failed, or when ctx ends, with its cause. A Read from In may still be under way then.
func (c *Client) Session(ctx context.Context, pathname string, command []string, s Streams) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	to := target(pathname, s.Query(command))
	ws, err := remotecommand.NewWebSocketExecutor(c.config(ctx), http.MethodGet, to.String())
	if err != nil {
		return err
	}
	upgrade, err := c.spdy(ctx)
	if err != nil {
		return err
	}
	old, err := remotecommand.NewSPDYExecutorRejectRedirects(upgrade, spdy.NewUpgraderForStreaming(upgrade),
		http.MethodPost, to)
	if err != nil {
		return err
	}
	both, err := remotecommand.NewFallbackExecutor(ws, old, otherProtocol)
	if err != nil {
		return err
	}
	if s.TTY {
		s.Err = nil
	}
	var closeOut, closeErr func()
	s.Out, closeOut = gated(s.Out)
	s.Err, closeErr = gated(s.Err)
	defer closeOut()
	defer closeErr()
	// The libraries report on their log what they return, too.
	err = both.StreamWithContext(klog.NewContext(ctx, logr.Discard()), remotecommand.StreamOptions{
		Stdin: s.In, Stdout: s.Out, Stderr: s.Err, Tty: s.TTY, TerminalSizeQueue: s.Sizes,
	})
	var exit exec.CodeExitError
	if errors.As(err, &exit) {
		return &ExitError{exit.Code}
	}
	if err = explained(ctx, upgrade.lost(err)); lost(err) {
		return fmt.Errorf("%w: %w", ErrLost, err)
	}
	return err
}

// lost reports whether an error is one of the connection.
func lost(err error) bool {
	var closed *gorilla.CloseError
	var network net.Error
	return errors.As(err, &closed) || errors.As(err, &network) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}
