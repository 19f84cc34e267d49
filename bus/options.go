package bus

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"
)

// Limits of the bus.
const (
	// MaxManifestBytes bounds one manifest: the kubelet reads pod files up to 10 MB.
	MaxManifestBytes = 10 << 20
	// maxPayload bounds one message on the bus: the largest manifest and its headers.
	maxPayload = 16 << 20
	// minSyncInterval keeps a typo from causing a busy loop of fsyncs.
	minSyncInterval = 10 * time.Millisecond
	// maxSyncInterval bounds what a power cut may cost.
	maxSyncInterval = time.Minute
)

// SyncPolicy is when appended records are forced to disk, and so what a power cut may cost. A crash of the agent
// alone never costs a record under either policy.
type SyncPolicy struct {
	// Always: a record counts as stored once it survives a power cut. Queued records share one fsync. This is the
	// default.
	Always bool
	// Interval is how much of the journal's end, in time, a power cut may cost; set if Always is not.
	Interval time.Duration
}

// ParseSync parses "always" or "interval:<duration>" with a duration of 10ms to 1m. "" means always.
func ParseSync(s string) (SyncPolicy, error) {
	if s == "" || s == "always" {
		return SyncPolicy{Always: true}, nil
	}
	text, ok := strings.CutPrefix(s, "interval:")
	d, err := time.ParseDuration(text)
	if !ok || err != nil || d < minSyncInterval || d > maxSyncInterval {
		return SyncPolicy{},
			fmt.Errorf("%q is no journal sync policy: want always, or interval:<duration> with a duration of %v to %v",
				s, minSyncInterval, maxSyncInterval)
	}
	return SyncPolicy{Interval: d}, nil
}

// String returns the form that ParseSync parses.
func (p SyncPolicy) String() string {
	if p.Always || p.Interval == 0 {
		return "always"
	}
	return "interval:" + p.Interval.String()
}

// Options are the place of a bus and how it stores.
type Options struct {
	// Dir holds all of the bus, with mode 0700: jetstream/ with the streams, credentials/ with the clients' keys, HEAD,
	// CUT, CUTTER, HOLES, SEEN, RESERVE, LOCK, damaged/ and bus.sock.
	Dir string
	// Node is the node's name: it is part of every subject, so a journal belongs to one name.
	Node string
	// Sync is when records are forced to disk; the zero value means always.
	Sync SyncPolicy
	// Listen is host:port for NATS clients that hold a key of credentials/; empty opens no port. Clients without a key
	// are rejected. Off the loopback interface the port must be encrypted.
	Listen string
	// TLSCertFile and TLSPrivateKeyFile are PEM files with the port's certificate, the server's first, and its key. They
	// are read again when they have changed.
	TLSCertFile, TLSPrivateKeyFile string
	// Withhold leaves what containers and plugins say out of observers' events (clean.Withheld).
	Withhold bool
	// Log receives messages of the bus and of the NATS server; nil means slog's default.
	Log *slog.Logger
}

func (o *Options) check() error {
	if o.Dir == "" || o.Node == "" {
		return errors.New("bus: a directory and a node name are required")
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return fmt.Errorf("bus: directory %s: %w", o.Dir, err)
	}
	o.Dir = dir
	if strings.ContainsAny(o.Node, " *>\t\r\n") {
		return fmt.Errorf("bus: %q is no node name: it must be a DNS subdomain", o.Node)
	}
	if !o.Sync.Always && o.Sync.Interval == 0 {
		o.Sync.Always = true
	}
	if o.Listen != "" {
		if err := CheckListen(o.Listen, o.TLSCertFile, o.TLSPrivateKeyFile); err != nil {
			return fmt.Errorf("bus: listen (--bus-listen): %w", err)
		}
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return nil
}
