package query

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/describe"
)

const (
	// discoverTimeout bounds the search for an agent on a bus that responds.
	discoverTimeout = 5 * time.Second
	// discoverMore is how long the search continues after the first response, where there may be others.
	discoverMore = 300 * time.Millisecond
)

// ErrNoAgent reports that no agent responds on the bus.
var ErrNoAgent = errors.New("no agent responds: it is stopped, starting or stopping; see `systemctl status journalet`")

// Client sends requests to one agent.
type Client struct {
	nc     *nats.Conn
	node   string
	listen Listener
}

// Listener connects to the account that receives events; requests go to another one. The caller closes the connection.
type Listener func(context.Context) (*nats.Conn, error)

// NewClient returns a client of the agent of a node, with node "" of the only agent on the bus. Behind a port there may
// be a hub with many agents, so it waits a moment for a second response.
func NewClient(ctx context.Context, nc *nats.Conn, listen Listener, node string) (*Client, error) {
	return newClient(ctx, nc, listen, node, discoverMore)
}

// Dial connects to the agent whose bus has its files in dir. Its errors are bus.Dial's, and ErrNoAgent.
func Dial(ctx context.Context, dir string, opts ...nats.Option) (*Client, error) {
	nc, err := bus.Dial(ctx, dir, opts...)
	if err != nil {
		return nil, err
	}
	listen := func(ctx context.Context) (*nats.Conn, error) { return bus.Listen(ctx, dir, opts...) }
	c, err := NewLocalClient(ctx, nc, listen)
	if err != nil {
		nc.Close()
	}
	return c, err
}

// NewLocalClient returns a client of the agent behind its own socket, where there is no other.
func NewLocalClient(ctx context.Context, nc *nats.Conn, listen Listener) (*Client, error) {
	return newClient(ctx, nc, listen, "", 0)
}

func newClient(ctx context.Context, nc *nats.Conn, listen Listener, node string, more time.Duration) (*Client, error) {
	if node != "" {
		return &Client{nc: nc, node: node, listen: listen}, nil
	}
	nodes, err := discover(ctx, nc, more)
	if err != nil {
		return nil, err
	}
	if len(nodes) > 1 {
		return nil, badRequest("%d nodes respond on this bus (%s): choose one with --node", len(nodes),
			strings.Join(nodes, ", "))
	}
	return &Client{nc: nc, node: nodes[0], listen: listen}, nil
}

// discover returns the nodes whose agents respond, until more has passed without another response.
func discover(ctx context.Context, nc *nats.Conn, more time.Duration) ([]string, error) {
	subject, err := micro.ControlSubject(micro.PingVerb, Service, "")
	if err != nil {
		return nil, err
	}
	inbox := nc.NewRespInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return nil, fmt.Errorf("discover the agent: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := nc.PublishRequest(subject, inbox, nil); err != nil {
		return nil, fmt.Errorf("discover the agent: %w", err)
	}
	wait := discoverTimeout
	var nodes []string
	for {
		m, err := next(ctx, sub, wait)
		switch {
		case err != nil && len(nodes) > 0 && ctx.Err() == nil:
			slices.Sort(nodes)
			return slices.Compact(nodes), nil
		case err != nil:
			return nil, clientError(ctx, err)
		}
		var p micro.Ping
		if bounded.JSON(m.Data, maxResponse, &p) == nil && p.Metadata["node"] != "" {
			nodes = append(nodes, p.Metadata["node"])
		}
		if wait = more; more == 0 && len(nodes) > 0 {
			return nodes, nil
		}
	}
}

// next waits for one message until ctx ends or wait has passed.
func next(ctx context.Context, sub *nats.Subscription, wait time.Duration) (*nats.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	m, err := sub.NextMsgWithContext(ctx)
	if err != nil {
		return nil, err
	}
	if m.Header.Get("Status") == "503" {
		return nil, nats.ErrNoResponders
	}
	return m, nil
}

// Node returns the name of the agent's node.
func (c *Client) Node() string { return c.node }

// Conn returns the connection for requests.
func (c *Client) Conn() *nats.Conn { return c.nc }

// clientError turns an error of the transport into an error that says what to do next.
func clientError(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, nats.ErrNoResponders):
		return ErrNoAgent
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return fmt.Errorf("%w (request timed out)", ErrNoAgent)
	}
	return fmt.Errorf("request to the agent: %w", err)
}

func (c *Client) request(ctx context.Context, name string, request, response any, timeout time.Duration) error {
	data, err := json.Marshal(request)
	if err != nil {
		return fmt.Errorf("request to the agent: %w", err)
	}
	if err := checkSize(data); err != nil {
		return err // the bus would disconnect the client
	}
	waiting, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	m, err := c.nc.RequestWithContext(waiting, Subject(c.node, name), data)
	if err != nil {
		return clientError(ctx, err)
	}
	return decodeResponse(m, response)
}

func decodeResponse(m *nats.Msg, into any) error {
	if code := m.Header.Get(micro.ErrorCodeHeader); code != "" {
		return &Error{parseCode(code), m.Header.Get(micro.ErrorHeader)}
	}
	if err := bounded.JSON(m.Data, maxResponse, into); err != nil {
		return fmt.Errorf("decode the agent's response; is it of another version than this command? %w", err)
	}
	return nil
}

const clientTimeout = requestTimeout + 2*time.Second

// Pods returns all pods of a namespace, or of all namespaces with "".
func (c *Client) Pods(ctx context.Context, namespace string) (*corev1.PodList, error) {
	all := &corev1.PodList{}
	for q := (ListRequest{Namespace: namespace}); ; q.Continue = all.Continue {
		var page corev1.PodList
		if err := c.request(ctx, PodsList, q, &page, clientTimeout); err != nil {
			return nil, err
		}
		page.Items = append(all.Items, page.Items...)
		all = &page
		if page.Continue == "" {
			all.RemainingItemCount = nil
			return all, nil
		}
	}
}

// Pod returns one pod's report.
func (c *Client) Pod(ctx context.Context, q PodRequest) (*PodReport, error) {
	a := &PodReport{}
	return a, c.request(ctx, PodsGet, q, a, clientTimeout)
}

// Read returns one page of events.
func (c *Client) Read(ctx context.Context, q ReadRequest) (*Page, error) {
	a := &Page{}
	return a, c.request(ctx, RecordsRead, q, a, clientTimeout)
}

// Names returns a describer that knows the names of the pods that there are. Others are shown by their UIDs until an
// event names them.
func (c *Client) Names(ctx context.Context) *describe.Describer {
	d := describe.New()
	if pods, err := c.Pods(ctx, ""); err == nil {
		for i := range pods.Items {
			p := &pods.Items[i]
			d.Name(string(p.UID), p.Namespace, p.Name)
		}
	}
	return d
}

// Record returns one record.
func (c *Client) Record(ctx context.Context, seq uint64) (*RecordReport, error) {
	a := &RecordReport{}
	return a, c.request(ctx, RecordsGet, GetRequest{Seq: seq}, a, clientTimeout)
}

// Lines returns the events of a record; a describe.Renderer fetches causes with it.
func (c *Client) Lines(ctx context.Context, seq uint64) ([]describe.Line, error) {
	r, err := c.Record(ctx, seq)
	if err != nil {
		return nil, err
	}
	return r.Events, nil
}

// flats returns a function that reads the events of a record for a filter.
func (c *Client) flats(ctx context.Context) func(uint64) ([]messages.Flat, error) {
	return func(seq uint64) ([]messages.Flat, error) {
		lines, err := c.Lines(ctx, seq)
		if IsNotFound(err) {
			return nil, history.ErrNoRecord
		}
		out := make([]messages.Flat, len(lines))
		for i := range lines {
			out[i] = lines[i].Flat
		}
		return out, err
	}
}

// Size returns what makes up the size of the journal.
func (c *Client) Size(ctx context.Context) (*bus.SizeReport, error) {
	a := &bus.SizeReport{}
	return a, c.request(ctx, JournalSize, struct{}{}, a, longTimeout)
}

// Lift ends the quarantine of an actor.
func (c *Client) Lift(ctx context.Context, q LiftRequest) (*LiftResponse, error) {
	a := &LiftResponse{}
	return a, c.request(ctx, QuarantineLift, q, a, liftTimeout)
}

// Prune cuts the journal's oldest records.
func (c *Client) Prune(ctx context.Context, q PruneRequest) (*bus.Pruned, error) {
	a := &bus.Pruned{}
	return a, c.request(ctx, JournalPrune, q, a, longTimeout)
}

// Restart requests the restart of a pod or a container.
func (c *Client) Restart(ctx context.Context, q RestartRequest) (*RestartResponse, error) {
	a := &RestartResponse{}
	return a, c.request(ctx, PodRestart, q, a, clientTimeout)
}

// BeginDrain requests a drain of the node.
func (c *Client) BeginDrain(ctx context.Context, q DrainRequest) (*DrainStatus, error) {
	a := &DrainStatus{}
	return a, c.request(ctx, DrainBegin, q, a, clientTimeout)
}

// Drain returns the drain of the node as it stands.
func (c *Client) Drain(ctx context.Context) (*DrainStatus, error) {
	a := &DrainStatus{}
	return a, c.request(ctx, NodeDrain, struct{}{}, a, clientTimeout)
}

// Uncordon requests the end of a drain.
func (c *Client) Uncordon(ctx context.Context, q UncordonRequest) (*DrainStatus, error) {
	a := &DrainStatus{}
	return a, c.request(ctx, NodeUncordon, q, a, clientTimeout)
}

// Info describes the agent.
func (c *Client) Info(ctx context.Context) (*Info, error) {
	a := &Info{}
	return a, c.request(ctx, NodeInfo, struct{}{}, a, clientTimeout)
}

// Verify has the agent check its journal. progress may be nil.
func (c *Client) Verify(ctx context.Context, progress func(done, total uint64)) (*bus.VerifyReport, error) {
	for q := (VerifyRequest{}); ; {
		a := &VerifyResponse{}
		if err := c.request(ctx, JournalVerify, q, a, clientTimeout); err != nil {
			return nil, err
		}
		if progress != nil {
			progress(a.Done, a.Total)
		}
		if a.Report != nil {
			return a.Report, nil
		}
		q.Check = a.Check
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(verifyPoll):
		}
	}
}
