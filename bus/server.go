package bus

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/journalet/journalet/messages"
)

// Limits of the server within. Observers are few: commands on this machine, a hub, a person watching.
const (
	maxConnections   = 128
	maxSubscriptions = 1024 // for one connection
	// maxPending bounds what the server keeps for an observer that does not read; then it is cut off.
	// The server wants room for one largest message at least.
	maxPending = 2 * maxPayload
	// observerWriteDeadline is how long the server waits on an observer's full socket.
	observerWriteDeadline = 5 * time.Second
	jetStreamMemory       = 64 << 20
	// jetStreamStore is no reservation, and the disk is the real bound: JetStream wants a number.
	jetStreamStore = 1 << 40
	startPoll      = 2 * time.Second
	blocksDir      = "msgs"
)

// embedded is the NATS server inside the process.
type embedded struct {
	srv  *server.Server
	acc  *accounts
	dir  string
	sync SyncPolicy
	log  *serverLog

	healing sync.Mutex // held while the streams are opened again
	healed  time.Time  // when they last were, whether it went well or not
}

// startServer starts the server and recovers the streams. It returns once connections are answered.
func startServer(ctx context.Context, o Options, a *accounts) (*embedded, error) {
	opts := &server.Options{
		ServerName:             "journalet-" + messages.Token(o.Node),
		DontListen:             o.Listen == "",
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
		NoFastProducerStall:    true, // a slow observer is cut off; it never slows the writer
		JetStream:              true,
		StoreDir:               o.Dir,
		JetStreamMaxMemory:     jetStreamMemory,
		JetStreamMaxStore:      jetStreamStore,
		SyncInterval:           o.Sync.Interval,
		DisableJetStreamBanner: true,
	}
	if o.Listen != "" {
		host, port, err := net.SplitHostPort(o.Listen)
		if err != nil {
			return nil, fmt.Errorf("bus: listen address %q: %w", o.Listen, err)
		}
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil {
			return nil, fmt.Errorf("bus: listen address %q: the port is no number", o.Listen)
		}
		opts.Host, opts.Port = host, int(n)
		if n == 0 {
			opts.Port = server.RANDOM_PORT
		}
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

// enable gives the agent's account its streams.
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

// heal opens the streams again. A stream that met a write error (a full disk above all) refuses every
// write until then, and on a full disk the server closes all of them by itself.
// between is done while they are closed.
func (e *embedded) heal(between func() error) error {
	e.healing.Lock()
	defer e.healing.Unlock()
	return e.reopen(between)
}

// healOnce is heal for one of several that meet the same trouble: it does nothing if the streams were opened
// again after since.
func (e *embedded) healOnce(since time.Time) error {
	e.healing.Lock()
	defer e.healing.Unlock()
	if e.healed.After(since) {
		return nil
	}
	return e.reopen(func() error { return nil })
}

// reopen is for heal and healOnce only.
func (e *embedded) reopen(between func() error) error {
	e.healed = time.Now()
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

// connect opens a connection inside the process, in the agent's account.
func (e *embedded) connect(name string) (*nats.Conn, error) {
	sign, err := signWith(e.acc.writer)
	if err != nil {
		return nil, err
	}
	return nats.Connect("", nats.InProcessServer(e.srv), nats.Name(name), sign,
		nats.MaxReconnects(-1), nats.ReconnectWait(100*time.Millisecond),
		// No timer wakes the agent for a connection that cannot break.
		nats.PingInterval(24*time.Hour))
}

func (e *embedded) stop() {
	e.srv.Shutdown()
	e.srv.WaitForShutdown()
}

// streamDir is where the blocks of one of the agent's streams stand in the bus's folder.
func streamDir(dir, stream string) string {
	return filepath.Join(dir, server.JetStreamStoreDir, agentAccount, "streams", stream, blocksDir)
}

var errClosed = errors.New("bus: closed")
