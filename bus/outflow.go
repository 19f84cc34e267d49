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
	// maxUnsent bounds what the server keeps for all of those together that do not read: maxPending alone would be
	// allowed to each of maxConnections. Above it those with the most are cut off.
	maxUnsent = 96 << 20
	// unsentEvery is how often that is looked at while somebody is connected; what the agent makes in that time comes on top.
	unsentEvery = 50 * time.Millisecond
	// strangersEvery is how often a port that is open is looked at for somebody to have come.
	strangersEvery = time.Second
)

// outflow watches what is kept for those who do not read.
type outflow struct {
	srv  *server.Server
	own  map[uint64]bool              // the agent's own connections
	cut  atomic.Pointer[func(uint64)] // ends a connection without waiting for it
	came chan struct{}
	stop context.CancelFunc
	done sync.WaitGroup
}

// watchOutflow begins to watch; listens says that others may come by a port. Nothing wakes the agent while nobody is there
// and no port is open.
func watchOutflow(srv *server.Server, own []*nats.Conn, listens bool) (*outflow, error) {
	ctx, stop := context.WithCancel(context.Background())
	o := &outflow{srv: srv, own: map[uint64]bool{}, came: make(chan struct{}, 1), stop: stop}
	for _, nc := range own {
		id, err := nc.GetClientID()
		if err != nil {
			stop()
			return nil, err
		}
		o.own[id] = true
	}
	o.done.Go(func() { o.run(ctx, listens) })
	return o, nil
}

// arrived tells that somebody came by the socket.
func (o *outflow) arrived() {
	select {
	case o.came <- struct{}{}:
	default:
	}
}

func (o *outflow) close() {
	o.stop()
	o.done.Wait()
}

func (o *outflow) run(ctx context.Context, listens bool) {
	var look <-chan time.Time
	pace := time.NewTicker(strangersEvery)
	defer pace.Stop()
	if listens {
		look = pace.C
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-o.came:
		case <-look:
		}
		o.attend(ctx)
	}
}

// attend looks at all connections until only the agent's own are left.
func (o *outflow) attend(ctx context.Context) {
	pace := time.NewTicker(unsentEvery)
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
		o.trim()
	}
}

// trim cuts off who has the most unsent, until what is kept for the others is within its bound.
func (o *outflow) trim() {
	all, err := o.srv.Connz(&server.ConnzOptions{Sort: server.ByPending, Limit: maxConnections})
	if err != nil {
		return // it asks for nothing that could fail
	}
	sum := 0
	for _, c := range all.Conns {
		if !o.own[c.Cid] {
			sum += c.Pending
		}
	}
	for _, c := range all.Conns { // the most first
		if sum <= maxUnsent {
			return
		}
		if o.own[c.Cid] {
			continue
		}
		_ = o.srv.DisconnectClientByID(c.Cid) // gone by itself meanwhile
		if cut := o.cut.Load(); cut != nil {
			(*cut)(c.Cid)
		}
		sum -= c.Pending
	}
}
