package bus

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

const (
	// maxPendingTotal bounds the bytes pending for all clients together: maxPending alone would allow its limit to each
	// of maxConnections. Above it the slowest clients are disconnected.
	maxPendingTotal = 96 << 20
	// pendingInterval is how often pending bytes are checked while a client is connected; what the agent publishes within
	// it comes on top.
	pendingInterval = 50 * time.Millisecond
)

// slowConsumers disconnects clients that do not read what is pending for them.
type slowConsumers struct {
	srv        *server.Server
	own        map[uint64]bool              // the agent's own connections
	disconnect atomic.Pointer[func(uint64)] // ends a connection without waiting for it
	connects   chan struct{}
	stop       context.CancelFunc
	done       sync.WaitGroup
}

// watchSlowConsumers starts to watch. Nothing wakes the agent while no client is connected.
func watchSlowConsumers(srv *server.Server, own []*nats.Conn) (*slowConsumers, error) {
	ctx, stop := context.WithCancel(context.Background())
	o := &slowConsumers{srv: srv, own: map[uint64]bool{}, connects: make(chan struct{}, 1), stop: stop}
	for _, nc := range own {
		id, err := nc.GetClientID()
		if err != nil {
			stop()
			return nil, err
		}
		o.own[id] = true
	}
	o.done.Go(func() { o.run(ctx) })
	return o, nil
}

// connected reports a new connection.
func (o *slowConsumers) connected() {
	select {
	case o.connects <- struct{}{}:
	default:
	}
}

func (o *slowConsumers) close() {
	o.stop()
	o.done.Wait()
}

func (o *slowConsumers) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.connects:
		}
		o.watch(ctx)
	}
}

// watch checks pending bytes until only the agent's own connections are left.
func (o *slowConsumers) watch(ctx context.Context) {
	pace := time.NewTicker(pendingInterval)
	defer pace.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pace.C:
		}
		if o.srv.NumClients() <= len(o.own) {
			return
		}
		o.disconnectSlowest()
	}
}

// disconnectSlowest disconnects the clients with the most pending bytes, until the others are within the bound.
func (o *slowConsumers) disconnectSlowest() {
	all, err := o.srv.Connz(&server.ConnzOptions{Sort: server.ByPending, Limit: maxConnections})
	if err != nil {
		return // cannot happen with these options
	}
	sum := 0
	for _, c := range all.Conns {
		if !o.own[c.Cid] {
			sum += c.Pending
		}
	}
	for _, c := range all.Conns { // the most pending first
		if sum <= maxPendingTotal {
			return
		}
		if o.own[c.Cid] {
			continue
		}
		_ = o.srv.DisconnectClientByID(c.Cid) // an error: it is gone already
		if cut := o.disconnect.Load(); cut != nil {
			(*cut)(c.Cid)
		}
		sum -= c.Pending
	}
}
