package query

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// Host is what the services need of the actors' host.
type Host interface {
	// Inspect runs f on the actor's own turn. f keeps nothing of what it is given. An error means
	// that f was not run, or not in time.
	Inspect(ctx context.Context, ref messages.Ref, f func(actors.Decider)) error
	// Refs are the actors of a kind that live now.
	Refs(kind journaletv1.ActorKind) []messages.Ref
	// Quarantines are the actors out of service.
	Quarantines() map[messages.Ref]*journaletv1.Quarantined
}

// Options say what the services answer from. All but Started, Simulated and Log must be set.
type Options struct {
	Conn    *nats.Conn
	Host    Host
	Journal *bus.Journal
	Node    string
	// NodeView is what pods show of their node; it is called for each answer.
	NodeView func() pod.Node
	// Version is the agent's, as `journalet version` prints it.
	Version string
	// Epoch is the number of this run.
	Epoch uint64
	// Started is when the run began; zero means now.
	Started   time.Time
	Simulated bool
	Log       *slog.Logger
}

func (o *Options) check() error {
	if o.Conn == nil || o.Host == nil || o.Journal == nil || o.Node == "" || o.NodeView == nil {
		return errors.New("query: Conn, Host, Journal, Node and NodeView are needed")
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
}

// question is one thing that can be asked.
type question struct {
	subject string
	about   string
	timeout time.Duration
	// answer reads the question from data and hands out one answer or several.
	answer func(ctx context.Context, data []byte, send func(any) error) error
}

// Serve answers until stop is called, or the connection closes. Questions of one kind are answered one
// after the other, so that many observers cost no more than a few; a bounded number waits, and more are refused at
// once, so that nothing of a flood is left to be answered when it is over. stop ends what is under way and
// returns once nothing asks the host or the journal any more.
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
			o.Log.Debug("the query service did not stop cleanly", "err", err)
		}
		s.working.Wait()
	}
	group := svc.AddGroup(prefix(o.Node))
	for _, q := range s.questions() {
		err := group.AddEndpoint(strings.ReplaceAll(q.subject, ".", "-"), s.queue(q),
			micro.WithEndpointSubject(q.subject), micro.WithEndpointPendingLimits(maxUnread, maxUnreadBytes), micro.WithEndpointMetadata(map[string]string{"about": q.about}))
		if err != nil {
			end()
			return nil, fmt.Errorf("query: add %s: %w", q.subject, err)
		}
	}
	if err := o.Conn.FlushTimeout(askTimeout); err != nil {
		end()
		return nil, fmt.Errorf("query: start to serve: %w", err)
	}
	return sync.OnceFunc(end), nil
}

// threeNumbers is the part of a version that every form of one agrees on.
var threeNumbers = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)`)

// serviceVersion is the version in the form that NATS micro asks for.
func serviceVersion(v string) string {
	if s := threeNumbers.FindString(strings.TrimPrefix(v, "v")); s != "" {
		return s
	}
	return "0.0.0"
}

func (s *server) questions() []question {
	return []question{
		{PodsList, "pods as a v1.PodList", askTimeout, one(s.listPods)},
		{PodsGet, "one pod with its latest decisions and their causes", askTimeout, one(s.getPod)},
		{RecordsRead, "a page of the journal's events", askTimeout, one(s.readRecords)},
		{RecordsGet, "one record of the journal", askTimeout, one(s.getRecord)},
		{JournalVerify, "a check of the whole journal, with progress", longTimeout, s.verify},
		{JournalSize, "where the journal's bytes are", longTimeout, one(s.size)},
		{NodeInfo, "the agent itself", askTimeout, one(s.info)},
	}
}

// queue makes the handler of a question: it takes what is asked, or refuses it, and never takes time. One worker answers.
func (s *server) queue(q question) micro.Handler {
	room := maxWaiting
	if q.timeout == longTimeout {
		room = maxLongWaiting
	}
	waiting := make(chan micro.Request, room)
	s.working.Add(1)
	go func() {
		defer s.working.Done()
		for {
			select {
			case req := <-waiting:
				s.handle(q, req)
			case <-s.ctx.Done():
				for len(waiting) > 0 {
					s.refuse(q, <-waiting, s.ctx.Err())
				}
				return
			}
		}
	}()
	return micro.HandlerFunc(func(req micro.Request) {
		if err := checkSize(req.Data()); err != nil {
			s.refuse(q, req, err) // now: what waits is held in memory
			return
		}
		select {
		case waiting <- req:
		default:
			s.refuse(q, req, &Error{CodeUnavailable, fmt.Sprintf("the agent is asked too much: %d questions of this kind wait already; ask again later", room)})
		}
	})
}

// one makes a question with one answer.
func one[Q, A any](f func(context.Context, Q) (A, error)) func(context.Context, []byte, func(any) error) error {
	return func(ctx context.Context, data []byte, send func(any) error) error {
		var q Q
		if err := decode(data, &q); err != nil {
			return err
		}
		a, err := f(ctx, q)
		if err != nil {
			return err
		}
		return send(a)
	}
}

// decode reads a question; no bytes at all ask the plain question. An unknown field is refused: it is
// a typing error or a wish of a newer client, and either would get a wrong answer.
func decode(data []byte, into any) error {
	if len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return badRequest("the question cannot be read: %v", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return badRequest("the question cannot be read: more follows after its end")
	}
	return nil
}

func checkSize(data []byte) error {
	if len(data) > maxRequest {
		return badRequest("the question has %d bytes, more than the %d that are read", len(data), maxRequest)
	}
	return nil
}

func (s *server) handle(q question, req micro.Request) {
	ctx, cancel := context.WithTimeout(s.ctx, q.timeout)
	defer cancel()
	err := func() (err error) {
		defer func() {
			if r := recover(); r != nil {
				s.Log.Error("a question made the agent panic", "question", q.subject, "panic", r)
				err = &Error{CodeInternal, "the agent failed to answer; its log has more"}
			}
		}()
		return q.answer(ctx, req.Data(), func(a any) error { return s.send(req, a) })
	}()
	if err != nil {
		s.refuse(q, req, err)
	}
}

// refuse answers with an error.
func (s *server) refuse(q question, req micro.Request, err error) {
	e := s.coded(q, err)
	if err := req.Error(strconv.Itoa(e.Code), e.Message, nil); err != nil {
		s.Log.Debug("an answer could not be sent", "question", q.subject, "err", err)
	}
}

func (s *server) send(req micro.Request, a any) error {
	b, err := json.Marshal(a)
	if err != nil {
		return fmt.Errorf("encode the answer: %w", err)
	}
	if len(b) > maxResponse {
		return &Error{CodeInternal, fmt.Sprintf("the answer has %d bytes, more than the %d that one may have: ask for less", len(b), maxResponse)}
	}
	return req.Respond(b)
}

func (s *server) coded(q question, err error) *Error {
	var e *Error
	switch {
	case errors.As(err, &e):
		return e
	case s.ctx.Err() != nil:
		return &Error{CodeUnavailable, "the agent is stopping: ask again once it runs"}
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{CodeUnavailable, fmt.Sprintf("the agent did not have the answer within %s: ask again, or for less", q.timeout)}
	}
	s.Log.Warn("a question could not be answered", "question", q.subject, "err", err)
	return &Error{CodeInternal, err.Error()}
}
