//go:build vm

package machine

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// poll is the time between two tries of Eventually.
const poll = time.Second

// Must runs a script that must succeed, and returns its output without the space around it.
func (m *Machine) Must(t testing.TB, limit time.Duration, script string) string {
	t.Helper()
	out, err := m.RunWithin(limit, script)
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, m.AgentLog())
	}
	return strings.TrimSpace(out)
}

// Eventually polls a condition until it holds.
func (m *Machine) Eventually(t testing.TB, limit time.Duration, what string, holds func() error) {
	t.Helper()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for begun := time.Now(); ; <-tick.C {
		err := holds()
		if err == nil {
			t.Logf("%s: after %.1f s", what, time.Since(begun).Seconds())
			return
		}
		if time.Since(begun) > limit {
			t.Fatalf("%s: not within %v: %v\n%s", what, limit, err, m.AgentLog())
		}
	}
}

// AgentLog returns what systemd reports about the agent's unit, and the end of its log.
func (m *Machine) AgentLog() string {
	out, err := m.Run(fmt.Sprintf("systemctl status %[1]s -n 0 --no-pager; "+
		"journalctl -u %[1]s -o short-monotonic --no-pager | tail -n 60", m.unit))
	if err != nil {
		out += "\n" + err.Error()
	}
	return out
}

// Get returns the response of an HTTP server in the machine with its header, or an error of the connection.
func (m *Machine) Get(port, path string) string {
	out, _ := m.Run("exec 3<>/dev/tcp/127.0.0.1/" + port + " && printf 'GET /" + path +
		` HTTP/1.0\r\n\r\n' >&3 && timeout 20 cat <&3`)
	return out
}
