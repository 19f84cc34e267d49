package bus

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/journalet/journalet/messages"
)

// Limits of the embedded server. Observers are few: commands on this machine, a hub, a person watching.
const (
	// maxConnections is the server's bound. The doors bound their own, and the agent has a handful.
	maxConnections = maxSocketConns + maxPortConns + 16
	// maxSubscriptions is for one connection. Each subscription to events is a delivery of its own. A client needs one
	// with wildcards; the agent's services have the most, less than 20.
	maxSubscriptions = 32
	// maxPending bounds the bytes pending for an observer that does not read; above it the server disconnects it. The
	// server requires at least one largest message.
	maxPending = 2 * maxPayload
	// observerWriteDeadline is how long a write to an observer's full socket may take.
	observerWriteDeadline = 5 * time.Second
	jetStreamMemory       = 64 << 20
	// jetStreamStore reserves nothing. JetStream requires a number; the real bound is the disk.
	jetStreamStore = 1 << 40
	startPoll      = 2 * time.Second
	blocksDir      = "msgs"
)

// embedded is the NATS server in this process.
type embedded struct {
	srv  *server.Server
	acc  *accounts
	dir  string
	sync SyncPolicy
	log  *serverLog

	reopening sync.Mutex // held while the streams are opened again
	reopened  time.Time  // when that was last tried, successfully or not
}

// startServer starts the server and recovers the streams. It returns once the server accepts connections.
func startServer(ctx context.Context, o Options, a *accounts) (*embedded, error) {
	opts := &server.Options{
		ServerName:             "journalet-" + messages.Token(o.Node),
		DontListen:             true, // clients come through the doors
		NoSigs:                 true,
		NoLog:                  true,
		Accounts:               []*server.Account{a.agent, a.observer, a.query, a.system},
		SystemAccount:          systemAccount,
		Nkeys:                  a.users,
		MaxConn:                maxConnections,
		MaxSubs:                maxSubscriptions,
		MaxPayload:             maxPayload,
		MaxPending:             maxPending,
		WriteDeadline:          observerWriteDeadline,
		AuthTimeout:            signInTimeout.Seconds(),
		NoFastProducerStall:    true, // a slow observer is disconnected; it never slows the writer
		JetStream:              true,
		StoreDir:               o.Dir,
		JetStreamMaxMemory:     jetStreamMemory,
		JetStreamMaxStore:      jetStreamStore,
		SyncInterval:           o.Sync.Interval,
		DisableJetStreamBanner: true,
	}
	srv, err := server.NewServer(opts)
	if err != nil {
		return nil, fmt.Errorf("bus: set up the NATS server: %w", err)
	}
	e := &embedded{srv: srv, acc: a, dir: o.Dir, sync: o.Sync, log: &serverLog{log: o.Log.With("part", "nats")}}
	srv.SetLoggerV2(e.log, false, false, false)
	go srv.Start()
	for !srv.ReadyForConnections(startPoll) {
		if fatal := e.log.fatal.Load(); fatal != nil {
			e.stop()
			return nil, fmt.Errorf("bus: start the NATS server: %s", *fatal)
		}
		if err := ctx.Err(); err != nil {
			e.stop()
			return nil, fmt.Errorf("bus: start the NATS server: %w", err)
		}
	}
	if err := e.enable(); err != nil {
		e.stop()
		return nil, err
	}
	return e, nil
}

// enable enables JetStream for the agent's account.
func (e *embedded) enable() error {
	acc, err := e.srv.LookupAccount(agentAccount)
	if err != nil {
		return fmt.Errorf("bus: look up the agent's account: %w", err)
	}
	e.acc.agent = acc
	if e.acc.observer, err = e.srv.LookupAccount(observerAccount); err != nil {
		return fmt.Errorf("bus: look up the observers' account: %w", err)
	}
	if acc.JetStreamEnabled() {
		return nil
	}
	if err := acc.EnableJetStream(nil, nil); err != nil {
		return fmt.Errorf("bus: open the streams in %s: %w", e.dir, err)
	}
	return nil
}

// reopenStreams closes the streams, calls between and opens them again. A stream that met a write error (most often a
// full disk) refuses every write until then, and on a full disk the server closes all of them.
func (e *embedded) reopenStreams(between func() error) error {
	e.reopening.Lock()
	defer e.reopening.Unlock()
	return e.reopen(between)
}

// reopenStreamsOnce opens the streams again, unless that was done after since: several streams meet the same failure.
func (e *embedded) reopenStreamsOnce(since time.Time) error {
	e.reopening.Lock()
	defer e.reopening.Unlock()
	if e.reopened.After(since) {
		return nil
	}
	return e.reopen(func() error { return nil })
}

// reopen needs the lock reopening.
func (e *embedded) reopen(between func() error) error {
	e.reopened = time.Now()
	if err := e.srv.ShutdownJetStream(); err != nil {
		return fmt.Errorf("bus: close the streams: %w", err)
	}
	failed := between()
	err := e.srv.EnableJetStream(&server.JetStreamConfig{
		StoreDir:     e.dir,
		MaxMemory:    jetStreamMemory,
		MaxStore:     jetStreamStore,
		SyncInterval: e.sync.Interval,
		Strict:       true,
	})
	if err != nil {
		return fmt.Errorf("bus: open the streams again: %w", err)
	}
	return errors.Join(failed, e.enable())
}

// connect opens a connection in the process, in the agent's account.
func (e *embedded) connect(name string) (*nats.Conn, error) {
	sign, err := signWith(e.acc.writer)
	if err != nil {
		return nil, err
	}
	return nats.Connect("", nats.InProcessServer(e.srv), nats.Name(name), sign,
		// Requests beyond what is queued are dropped: their clients see it.
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			e.log.log.Debug("an error of a connection of the agent", "connection", name, "err", err)
		}),
		nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond),
		// No timer wakes the agent: a connection in the process cannot break.
		nats.PingInterval(24*time.Hour))
}

func (e *embedded) stop() {
	e.srv.Shutdown()
	e.srv.WaitForShutdown()
}

// streamDir returns the directory of the blocks of one of the agent's streams, under the bus's directory.
func streamDir(dir, stream string) string {
	return filepath.Join(dir, server.JetStreamStoreDir, agentAccount, "streams", stream, blocksDir)
}

var errClosed = errors.New("bus: closed")
