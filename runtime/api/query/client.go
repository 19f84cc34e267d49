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
)

const (
	// discoverTimeout bounds the search for an agent on a bus that answers.
	discoverTimeout = 5 * time.Second
	// discoverMore is how long the search goes on after the first answer, where there may be others.
	discoverMore = 300 * time.Millisecond
	// quietTimeout is how long a long answer may keep quiet.
	quietTimeout = time.Minute
)

// ErrNoAgent says that no agent answers on the bus.
var ErrNoAgent = errors.New("no agent answers: it is starting or stopping, or none runs; look at `systemctl status journalet`")

// Client asks one agent.
type Client struct {
	nc     *nats.Conn
	node   string
	listen Listener
}

// Listener connects to where events are heard: another account than the one that is asked. The
// connection belongs to the caller.
type Listener func(context.Context) (*nats.Conn, error)

// NewClient finds the agent of a node on the bus; with "" as node it finds the only agent there is.
// Behind a port there may be a hub with many, so it waits a moment for a second answer.
func NewClient(ctx context.Context, nc *nats.Conn, listen Listener, node string) (*Client, error) {
	return newClient(ctx, nc, listen, node, discoverMore)
}

// NewLocalClient finds the agent behind its own socket, where there is no other.
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
		return nil, badRequest("%d nodes answer on this bus (%s): name one with --node", len(nodes), strings.Join(nodes, ", "))
	}
	return &Client{nc: nc, node: nodes[0], listen: listen}, nil
}

// discover asks who serves here, until more has passed without another answer.
func discover(ctx context.Context, nc *nats.Conn, more time.Duration) ([]string, error) {
	subject, err := micro.ControlSubject(micro.PingVerb, Service, "")
	if err != nil {
		return nil, err
	}
	inbox := nc.NewRespInbox()
	sub, err := nc.SubscribeSync(inbox)
	if err != nil {
		return nil, fmt.Errorf("look for the agent: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := nc.PublishRequest(subject, inbox, nil); err != nil {
		return nil, fmt.Errorf("look for the agent: %w", err)
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
			return nil, asked(ctx, err)
		}
		var p micro.Ping
		if json.Unmarshal(m.Data, &p) == nil && p.Metadata["node"] != "" {
			nodes = append(nodes, p.Metadata["node"])
		}
		if wait = more; more == 0 && len(nodes) > 0 {
			return nodes, nil
		}
	}
}

// next waits for one message, within the context and a time of its own.
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

// Node is the name of the node asked.
func (c *Client) Node() string { return c.node }

// Conn is the connection.
func (c *Client) Conn() *nats.Conn { return c.nc }

// asked turns an error of the transport into one that says what to do.
func asked(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, nats.ErrNoResponders):
		return ErrNoAgent
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrTimeout):
		return fmt.Errorf("%w (no answer in time)", ErrNoAgent)
	}
	return fmt.Errorf("ask the agent: %w", err)
}

func (c *Client) ask(ctx context.Context, question string, q, a any, wait time.Duration) error {
	data, err := json.Marshal(q)
	if err != nil {
		return fmt.Errorf("ask the agent: %w", err)
	}
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	m, err := c.nc.RequestWithContext(waiting, Subject(c.node, question), data)
	if err != nil {
		return asked(ctx, err)
	}
	return answered(m, a)
}

func answered(m *nats.Msg, a any) error {
	if code := m.Header.Get(micro.ErrorCodeHeader); code != "" {
		return &Error{parseCode(code), m.Header.Get(micro.ErrorHeader)}
	}
	if err := json.Unmarshal(m.Data, a); err != nil {
		return fmt.Errorf("the agent's answer cannot be read; is it of another version than this command? %w", err)
	}
	return nil
}

const clientTimeout = askTimeout + 2*time.Second

// Pods are all pods of a namespace, or of all namespaces with "".
func (c *Client) Pods(ctx context.Context, namespace string) (*corev1.PodList, error) {
	all := &corev1.PodList{}
	for q := (ListRequest{Namespace: namespace}); ; q.Continue = all.Continue {
		var page corev1.PodList
		if err := c.ask(ctx, PodsList, q, &page, clientTimeout); err != nil {
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

// Pod is one pod's report.
func (c *Client) Pod(ctx context.Context, q PodRequest) (*PodReport, error) {
	a := &PodReport{}
	return a, c.ask(ctx, PodsGet, q, a, clientTimeout)
}

// Read is one page of events.
func (c *Client) Read(ctx context.Context, q ReadRequest) (*Page, error) {
	a := &Page{}
	return a, c.ask(ctx, RecordsRead, q, a, clientTimeout)
}

// Record is one record.
func (c *Client) Record(ctx context.Context, seq uint64) (*RecordReport, error) {
	a := &RecordReport{}
	return a, c.ask(ctx, RecordsGet, GetRequest{Seq: seq}, a, clientTimeout)
}

// Size tells where the journal's bytes are.
func (c *Client) Size(ctx context.Context) (*bus.SizeReport, error) {
	a := &bus.SizeReport{}
	return a, c.ask(ctx, JournalSize, struct{}{}, a, longTimeout)
}

// Info is what the agent tells of itself.
func (c *Client) Info(ctx context.Context) (*Info, error) {
	a := &Info{}
	return a, c.ask(ctx, NodeInfo, struct{}{}, a, clientTimeout)
}

// Verify has the agent check its journal. progress may be nil.
func (c *Client) Verify(ctx context.Context, progress func(done, total uint64)) (*bus.VerifyReport, error) {
	inbox := c.nc.NewRespInbox()
	sub, err := c.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, fmt.Errorf("ask the agent: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := c.nc.PublishRequest(Subject(c.node, JournalVerify), inbox, nil); err != nil {
		return nil, fmt.Errorf("ask the agent: %w", err)
	}
	for {
		m, err := next(ctx, sub, quietTimeout)
		if err != nil {
			return nil, asked(ctx, err)
		}
		var a VerifyAnswer
		if err := answered(m, &a); err != nil {
			return nil, err
		}
		if a.Report != nil {
			return a.Report, nil
		}
		if progress != nil {
			progress(a.Done, a.Total)
		}
	}
}
