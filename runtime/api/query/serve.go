package query

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/defect"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/pattern"
)

// Host is what the services need of the actors' host.
type Host interface {
	// Inspect runs f between two events of the actor. f must not keep its argument. An error means that f did not run,
	// or not in time.
	Inspect(ctx context.Context, ref messages.Ref, f func(actors.Decider)) error
	// Refs returns the running actors of a kind.
	Refs(kind journaletv1.ActorKind) []messages.Ref
	// Quarantines returns the quarantined actors.
	Quarantines() map[messages.Ref]*journaletv1.Quarantined
	// LiftQuarantine folds a quarantined actor from the journal again and lets it continue; with skip it leaves out the
	// record that the actor failed on. An error is why the actor is still quarantined.
	LiftQuarantine(ref messages.Ref, skip bool) error
}

// Options configure the services. All but History, Prune, Images, Fact, Started, Simulated and Log must be set.
type Options struct {
	Conn    *nats.Conn
	Host    Host
	Journal *bus.Journal
	Node    string
	// NodeView returns what pods show of their node; it is called for each response.
	NodeView func() pod.Node
	// Whole gives a pod that an actor shows what the actor does not keep of the manifest with a digest; nil: it keeps all.
	Whole func(ctx context.Context, digest string, pod *corev1.Pod)
	// History opens the journal to read it back; nil: what needs that is not served.
	History func(context.Context) (history.Reader, error)
	// Prune cuts the journal's oldest records according to its bounds, or with dryRun reports what it would cut; nil: it
	// is not served.
	Prune func(ctx context.Context, r bus.Retention, dryRun bool) (bus.Pruned, error)
	// Images returns the images on the node; nil: it is not served.
	Images func(context.Context) (*ImageList, error)
	// Fact records what an operator requests; nil: nothing of that is served.
	Fact func(ctx context.Context, about messages.Ref, e *journaletv1.Event) error
	// Withhold leaves what containers and plugins say out of what observers read (clean.Withheld).
	Withhold bool
	// Version is the agent's, as `journalet version` prints it.
	Version string
	// Epoch is the number of this run.
	Epoch uint64
	// Started is the start of the run; zero means now.
	Started   time.Time
	Simulated bool
	Log       *slog.Logger
}

func (o *Options) check() error {
	if o.Conn == nil || o.Host == nil || o.Journal == nil || o.Node == "" || o.NodeView == nil {
		return errors.New("query: Conn, Host, Journal, Node and NodeView are required")
	}
	if o.Started.IsZero() {
		o.Started = time.Now()
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return nil
}

type server struct {
	Options
	ctx context.Context

	working sync.WaitGroup
	checks  checks
}

// endpoint serves one kind of request.
type endpoint struct {
	subject string
	about   string
	timeout time.Duration
	// respond decodes the request in data and returns the response.
	respond func(ctx context.Context, data []byte) (any, error)
}

// Serve serves requests until stop is called or the connection closes. Requests of one kind are served one after the
// other: many observers cost no more than a few. A bounded number is queued, the rest is rejected at once, so that no
// backlog is left after a flood. stop cancels the requests under way and returns once none uses the host or the
// journal.
func Serve(ctx context.Context, o Options) (stop func(), err error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &server{Options: o, ctx: ctx}
	svc, err := micro.AddService(o.Conn, micro.Config{
		Name: Service, Version: serviceVersion(o.Version),
		Description: "the node agent on " + o.Node,
		Metadata:    map[string]string{"node": o.Node, "version": o.Version},
	})
	if err != nil {
		cancel()
		return nil, fmt.Errorf("query: add the service: %w", err)
	}
	end := func() {
		cancel()
		if err := svc.Stop(); err != nil {
			o.Log.Debug("cannot stop the query service cleanly", "err", err)
		}
		s.checks.stop()
		s.working.Wait()
	}
	group := svc.AddGroup(prefix(o.Node))
	for _, e := range s.endpoints() {
		err := group.AddEndpoint(strings.ReplaceAll(e.subject, ".", "-"), s.handler(e),
			micro.WithEndpointSubject(e.subject), micro.WithEndpointPendingLimits(maxPending, maxPendingBytes),
			micro.WithEndpointMetadata(map[string]string{"about": e.about}))
		if err != nil {
			end()
			return nil, fmt.Errorf("query: add %s: %w", e.subject, err)
		}
	}
	observers, err := s.servePast()
	if err != nil {
		end()
		return nil, fmt.Errorf("query: serve observers: %w", err)
	}
	if err := o.Conn.FlushTimeout(requestTimeout); err != nil {
		end()
		return nil, fmt.Errorf("query: start to serve: %w", err)
	}
	return sync.OnceFunc(func() {
		_ = observers.Unsubscribe() // fails only on a closed connection
		end()
	}), nil
}

// threeNumbers is the part that all forms of a version have in common.
var threeNumbers = pattern.Lazy(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)`)

// serviceVersion returns the version in the form that NATS micro requires.
func serviceVersion(v string) string {
	if s := threeNumbers().FindString(strings.TrimPrefix(v, "v")); s != "" {
		return s
	}
	return "0.0.0"
}

func (s *server) endpoints() []endpoint {
	return []endpoint{
		{PodsList, "pods as a v1.PodList", requestTimeout, single(s.listPods)},
		{PodsGet, "one pod with its latest decisions and their causes", requestTimeout, single(s.getPod)},
		{PodsProblems, "what keeps pods of the node's sources from running", requestTimeout, single(s.listProblems)},
		{RecordsRead, "a page of the journal's events", requestTimeout, single(s.readRecords)},
		{RecordsGet, "one record of the journal", requestTimeout, single(s.getRecord)},
		{JournalVerify, "a check of the whole journal, with progress", requestTimeout, single(s.verify)},
		{JournalSize, "the size of the journal by its parts", longTimeout, single(s.size)},
		{JournalWhy, "why a record was written, or a pod is as it is", requestTimeout, single(s.why)},
		{NodeInfo, "the agent itself", requestTimeout, single(s.info)},
		{QuarantineLift, "the end of an actor's quarantine", liftTimeout, single(s.lift)},
		{ImagesList, "images on the node and who uses them", requestTimeout, single(s.listImages)},
		{ImagesPull, "pulls of images", requestTimeout, single(s.pullImages)},
		{ImagesRemove, "removals of images", requestTimeout, single(s.removeImages)},
		{JournalPrune, "a cut of the journal's oldest records", longTimeout, single(s.prune)},
		{NodeDrain, "the drain of the node", requestTimeout, single(s.drainState)},
		{PodRestart, "the restart of a pod or a container", requestTimeout, single(s.restart)},
		{DrainBegin, "a drain of the node", requestTimeout, single(s.drain)},
		{NodeUncordon, "the end of a drain", requestTimeout, single(s.uncordon)},
	}
}

// handler returns the handler of an endpoint. It queues or rejects a request without blocking; one worker serves them.
func (s *server) handler(e endpoint) micro.Handler {
	limit := maxQueued
	if e.timeout == longTimeout {
		limit = maxQueuedLong
	}
	queue := make(chan micro.Request, limit)
	s.working.Add(1)
	go func() {
		defer s.working.Done()
		for {
			select {
			case req := <-queue:
				s.handle(e, req)
			case <-s.ctx.Done():
				for len(queue) > 0 {
					s.reject(e, <-queue, s.ctx.Err())
				}
				return
			}
		}
	}()
	return micro.HandlerFunc(func(req micro.Request) {
		if err := checkSize(req.Data()); err != nil {
			s.reject(e, req, err) // at once: queued requests are held in memory
			return
		}
		select {
		case queue <- req:
		default:
			s.reject(e, req, &Error{CodeUnavailable, fmt.Sprintf(
				"the agent is overloaded: %d requests of this kind are queued already; try again later", limit)})
		}
	})
}

// single adapts a function to a request's and a response's encoding.
func single[Q, A any](f func(context.Context, Q) (A, error)) func(context.Context, []byte) (any, error) {
	return func(ctx context.Context, data []byte) (any, error) {
		var q Q
		if err := decode(data, &q); err != nil {
			return nil, err
		}
		return f(ctx, q)
	}
}

// decode decodes a request; no data means a request without fields. An unknown field is an error: it is a typo or a
// field of a newer client, and either would get a wrong response.
func decode(data []byte, into any) error {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	if err := bounded.JSON(data, maxRequest, into, (*json.Decoder).DisallowUnknownFields); err != nil {
		return badRequest("decode the request: %v", err)
	}
	return nil
}

func checkSize(data []byte) error {
	if len(data) > maxRequest {
		return badRequest("the request has %d bytes, at most %d", len(data), maxRequest)
	}
	return nil
}

func (s *server) handle(e endpoint, req micro.Request) {
	ctx, cancel := context.WithTimeout(s.ctx, e.timeout)
	defer cancel()
	b, err := s.respond(ctx, e, req.Data())
	if err == nil {
		err = req.Respond(b)
	}
	if err != nil {
		s.reject(e, req, err)
	}
}

// respond returns the encoded response to a request.
func (s *server) respond(ctx context.Context, e endpoint, data []byte) (b []byte, err error) {
	defer defect.Recover(func(stack string) {
		b, err = nil, &Error{CodeInternal, defect.Message}
		s.Log.Error("a request of the query API failed", "request", e.subject, "error", err, "stack", stack)
	})
	a, err := e.respond(ctx, data)
	if err != nil {
		return nil, err
	}
	if b, err = json.Marshal(a); err != nil {
		return nil, fmt.Errorf("encode the response: %w", err)
	}
	if len(b) > maxResponse {
		return nil, &Error{CodeInternal, fmt.Sprintf("the response has %d bytes, at most %d: request less", len(b),
			maxResponse)}
	}
	return b, nil
}

// reject responds with an error, in the headers of NATS services. Request.Error would note it in the request, which the
// service reads when the handler has returned, so before or while this runs.
func (s *server) reject(e endpoint, req micro.Request, err error) {
	coded := s.coded(e, err)
	headers := micro.Headers{
		micro.ErrorHeader: []string{coded.Message}, micro.ErrorCodeHeader: []string{strconv.Itoa(coded.Code)},
	}
	if err := req.Respond(nil, micro.WithHeaders(headers)); err != nil {
		s.Log.Debug("cannot send a response", "request", e.subject, "err", err)
	}
}

func (s *server) coded(e endpoint, err error) *Error {
	var coded *Error
	switch {
	case errors.As(err, &coded):
		return coded
	case s.ctx.Err() != nil:
		return &Error{CodeUnavailable, "the agent is stopping: try again once it runs"}
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{CodeUnavailable, fmt.Sprintf("the request took longer than %s: try again, or request less", e.timeout)}
	}
	s.Log.Warn("cannot serve a request", "request", e.subject, "err", err)
	return &Error{CodeInternal, err.Error()}
}
