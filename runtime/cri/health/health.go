package health

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/clean"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/clock"
)

const (
	// DefaultPeriod is the polling period, as the kubelet's runtime state sync: 5 s.
	DefaultPeriod = 5 * time.Second
	// DefaultTimeout bounds one poll.
	DefaultTimeout = 10 * time.Second
	// maxMessageBytes bounds the message about an unready runtime, which is logged, too.
	maxMessageBytes = 4 << 10
)

// Options configure a Monitor; Conn and Sink must be set.
type Options struct {
	Conn grpc.ClientConnInterface
	// Sink receives every change. An error ends Run.
	Sink func(context.Context, *journaletv1.RuntimeHealthChanged) error
	// Period and Timeout default to DefaultPeriod and DefaultTimeout.
	Period, Timeout time.Duration
	Clock           clock.Clock
	Log             *slog.Logger
}

// Monitor polls the runtime's health. Check and Run may not be called at the same time.
type Monitor struct {
	opts Options
	rt   runtimeapi.RuntimeServiceClient
	// last was recorded last; nil: the first poll is reported.
	last *journaletv1.RuntimeHealthChanged
	// name and version are read again after every failed poll: the runtime may have been upgraded.
	name, version string
}

// New returns a monitor. It calls nothing yet.
func New(opts Options) *Monitor {
	if opts.Conn == nil || opts.Sink == nil {
		panic("health: Options needs Conn and Sink")
	}
	if opts.Period == 0 {
		opts.Period = DefaultPeriod
	}
	if opts.Timeout == 0 {
		opts.Timeout = DefaultTimeout
	}
	if opts.Clock == nil {
		opts.Clock = clock.Real{}
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	return &Monitor{opts: opts, rt: runtimeapi.NewRuntimeServiceClient(opts.Conn)}
}

// Run polls until ctx ends, and reports every change. It returns ctx's error or the sink's.
func (m *Monitor) Run(ctx context.Context) error {
	for {
		now, err := m.Check(ctx)
		if err != nil {
			return err
		}
		if m.last == nil || !proto.Equal(now, m.last) {
			if err := m.opts.Sink(ctx, now); err != nil {
				return fmt.Errorf("report the runtime's health: %w", err)
			}
			m.opts.Log.Info("runtime health", "runtimeReady", now.GetRuntimeReady(), "networkReady", now.GetNetworkReady(),
				"runtime", now.GetRuntimeName(), "version", now.GetRuntimeVersion(), "message", now.GetMessage())
			m.last = now
		}
		if err := clock.Wait(ctx, m.opts.Clock, m.opts.Period); err != nil {
			return err
		}
	}
}

// Check polls once. A runtime that does not respond in time is not ready. The only error is ctx's.
func (m *Monitor) Check(ctx context.Context) (*journaletv1.RuntimeHealthChanged, error) {
	callCtx, cancel := clock.WithTimeout(ctx, m.opts.Clock, m.opts.Timeout)
	defer cancel()
	st, err := m.rt.Status(callCtx, &runtimeapi.StatusRequest{})
	if err == nil && m.name == "" {
		v, verr := m.rt.Version(callCtx, &runtimeapi.VersionRequest{})
		if err = verr; err == nil {
			m.name, m.version = v.GetRuntimeName(), v.GetRuntimeVersion()
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	out := &journaletv1.RuntimeHealthChanged{}
	if err != nil {
		// Name and version stay, so that an outage does not look like another runtime.
		out.RuntimeName, out.RuntimeVersion = m.last.GetRuntimeName(), m.last.GetRuntimeVersion()
		m.name, m.version = "", ""
		out.Message = "the container runtime does not respond; is it running?"
		if s, ok := status.FromError(err); ok {
			// The code and not the message, which differs between polls and would make every poll a change.
			out.Message += " (" + s.Code().String() + ")"
		}
		m.opts.Log.Debug("no response from the runtime", "error", err)
		return out, nil
	}
	out.RuntimeName, out.RuntimeVersion = m.name, m.version
	out.RuntimeReady, out.NetworkReady, out.Message = conditions(st.GetStatus())
	return out, nil
}

func conditions(st *runtimeapi.RuntimeStatus) (runtimeReady, networkReady bool, message string) {
	var problems []string
	ready := func(kind string) bool {
		for _, c := range st.GetConditions() {
			if c.GetType() != kind {
				continue
			}
			if !c.GetStatus() {
				problems = append(problems, fmt.Sprintf("%s=false reason:%s message:%s", kind, c.GetReason(), c.GetMessage()))
			}
			return c.GetStatus()
		}
		problems = append(problems, fmt.Sprintf("the runtime does not report its condition %s", kind))
		return false
	}
	runtimeReady, networkReady = ready(runtimeapi.RuntimeReady), ready(runtimeapi.NetworkReady)
	return runtimeReady, networkReady, clean.Text(strings.Join(problems, "; "), maxMessageBytes)
}
