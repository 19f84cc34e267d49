package monitoring

import (
	"context"
	"log/slog"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// pingsPerLimit is how often the watchdog is pinged within its limit: one ping that is late or lost does not matter.
const pingsPerLimit = 3

// Systemd reports the agent's state to the service manager. Without one (no NOTIFY_SOCKET) it does nothing.
type Systemd struct {
	alive func() error
	log   *slog.Logger
}

// NewSystemd returns a Systemd that pings the watchdog while alive returns nil. It must return well within the
// watchdog's limit, and fail only for what a restart of the agent repairs: see Checks.Within.
func NewSystemd(alive func() error, log *slog.Logger) *Systemd {
	if log == nil {
		log = slog.Default()
	}
	return &Systemd{alive: alive, log: log}
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

// Watch pings the watchdog at a third of its interval, only while the agent is alive, until ctx ends. It
// returns at once if the unit has no watchdog.
func (s *Systemd) Watch(ctx context.Context) {
	limit, err := daemon.SdWatchdogEnabled(false)
	if err != nil {
		s.log.Warn("cannot read the watchdog's interval; sending no pings", "err", err)
		return
	}
	if limit <= 0 {
		return
	}
	tick := time.NewTicker(max(limit/pingsPerLimit, time.Millisecond))
	defer tick.Stop()
	hangs := false
	for {
		switch err := s.alive(); {
		case err == nil:
			if hangs {
				s.log.Info("the agent no longer hangs")
			}
			hangs = false
			s.notify(daemon.SdNotifyWatchdog)
		case !hangs:
			hangs = true
			s.log.Error("the agent hangs: systemd restarts it unless it recovers", "within", limit, "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
