package server

import (
	"context"
	"log/slog"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// Systemd reports the agent's state to the service manager. Without one (no NOTIFY_SOCKET) it does nothing.
type Systemd struct {
	healthy func() error
	log     *slog.Logger
}

// NewSystemd returns a Systemd that pings the watchdog while healthy returns nil: see Checks.Err.
func NewSystemd(healthy func() error, log *slog.Logger) *Systemd {
	if log == nil {
		log = slog.Default()
	}
	return &Systemd{healthy: healthy, log: log}
}

func (s *Systemd) notify(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		s.log.Warn("cannot notify systemd", "state", state, "err", err)
	}
}

// Ready reports that the agent has started; status is a line for `systemctl status`.
func (s *Systemd) Ready(status string) {
	s.notify(daemon.SdNotifyReady + "\nSTATUS=" + status)
}

// Stopping reports that a clean stop has begun.
func (s *Systemd) Stopping() { s.notify(daemon.SdNotifyStopping) }

// Watch pings the watchdog at half of its interval, only while the agent is healthy, until ctx ends. It returns at once
// if the unit has no watchdog.
func (s *Systemd) Watch(ctx context.Context) {
	limit, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		s.log.Warn("cannot read the watchdog's interval; sending no pings", "err", err)
		return
	}
	if limit <= 0 {
		return
	}
	tick := time.NewTicker(max(limit/2, time.Millisecond))
	defer tick.Stop()
	unhealthy := false
	for {
		switch err := s.healthy(); {
		case err == nil:
			if unhealthy {
				s.log.Info("the agent is healthy again")
			}
			unhealthy = false
			s.notify(daemon.SdNotifyWatchdog)
		case !unhealthy:
			unhealthy = true
			s.log.Error("the agent is unhealthy: systemd restarts it unless it recovers", "within", limit, "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
