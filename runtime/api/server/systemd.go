package server

import (
	"context"
	"log/slog"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// Systemd tells the service manager how the agent is. Without one (no NOTIFY_SOCKET) it does nothing.
type Systemd struct {
	healthy func() error
	log     *slog.Logger
}

// NewSystemd makes one that pings the watchdog while healthy returns nil; Checks.Err fits.
func NewSystemd(healthy func() error, log *slog.Logger) *Systemd {
	if log == nil {
		log = slog.Default()
	}
	return &Systemd{healthy: healthy, log: log}
}

func (s *Systemd) tell(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		s.log.Warn("systemd could not be told", "state", state, "err", err)
	}
}

// Ready tells that the start is over; status is a line for `systemctl status`.
func (s *Systemd) Ready(status string) {
	s.tell(daemon.SdNotifyReady + "\nSTATUS=" + status)
}

// Stopping tells that a clean stop has begun.
func (s *Systemd) Stopping() { s.tell(daemon.SdNotifyStopping) }

// Watch pings the watchdog at half of its time, only while the agent is healthy, until ctx ends. It
// returns at once if the unit has no watchdog.
func (s *Systemd) Watch(ctx context.Context) {
	limit, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		s.log.Warn("the watchdog's time cannot be read; no pings are sent", "err", err)
		return
	}
	if limit <= 0 {
		return
	}
	tick := time.NewTicker(max(limit/2, time.Millisecond))
	defer tick.Stop()
	ill := false
	for {
		switch err := s.healthy(); {
		case err == nil:
			if ill {
				s.log.Info("the agent is healthy again")
			}
			ill = false
			s.tell(daemon.SdNotifyWatchdog)
		case !ill:
			ill = true
			s.log.Error("the agent is not healthy: systemd restarts it unless it recovers", "within", limit, "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
