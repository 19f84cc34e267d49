package bus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/runtime/bounded"
)

// link is the appender's access to its stream; tests inject faults into it.
type link interface {
	// publish sends one record; the stream stores it only as number seq.
	publish(attempt uint32, seq uint64, subject string, data []byte) error
	// acks delivers one acknowledgement for each publish, in order, except for lost ones.
	acks() <-chan *nats.Msg
	// last returns the number of the newest record in the stream and the hash of its bytes.
	last(ctx context.Context) (seq uint64, hash []byte, err error)
	// force returns once what was acknowledged is as durable as the sync policy requires.
	force() error
	// reopen opens the streams again, after a failure that makes them refuse everything.
	reopen() error
	// takeStoreError returns the store's last error since the call before; "" for none.
	takeStoreError() string
}

// ack is the stream's reply to one publish.
type ack struct {
	attempt uint32
	seq     uint64
	err     error
}

const (
	expectHeader   = "Nats-Expected-Last-Sequence"
	requestTimeout = 5 * time.Second
)

// natsLink is the link to the real stream.
type natsLink struct {
	srv    *embedded
	nc     *nats.Conn
	reader *reader
	inbox  string
	in     chan *nats.Msg
	blocks *blocks
	always bool
}

func newNATSLink(e *embedded, nc *nats.Conn, r *reader, always bool) (*natsLink, error) {
	l := &natsLink{
		srv: e, nc: nc, reader: r, always: always,
		inbox:  nats.NewInbox() + ".",
		in:     make(chan *nats.Msg, 2*maxInFlight),
		blocks: &blocks{dir: streamDir(e.dir, journalStream), rewritable: true},
	}
	if _, err := nc.ChanSubscribe(l.inbox+"*.*", l.in); err != nil {
		return nil, fmt.Errorf("bus: subscribe to acknowledgements: %w", err)
	}
	return l, nil
}

func (l *natsLink) publish(attempt uint32, seq uint64, subject string, data []byte) error {
	reply := make([]byte, 0, len(l.inbox)+32)
	reply = append(reply, l.inbox...)
	reply = strconv.AppendUint(reply, uint64(attempt), 10)
	reply = append(reply, '.')
	reply = strconv.AppendUint(reply, seq, 10)
	return l.nc.PublishMsg(&nats.Msg{
		Subject: subject,
		Reply:   string(reply),
		Header:  nats.Header{expectHeader: []string{strconv.FormatUint(seq-1, 10)}},
		Data:    data,
	})
}

func (l *natsLink) acks() <-chan *nats.Msg { return l.in }

func (l *natsLink) force() error {
	if !l.always {
		return nil
	}
	return l.blocks.force()
}

func (l *natsLink) reopen() error { return l.srv.reopenStreams(l.blocks.rewrite) }

func (l *natsLink) takeStoreError() string {
	if s := l.srv.log.lastError.Swap(nil); s != nil {
		return *s
	}
	return ""
}

func (l *natsLink) last(ctx context.Context) (uint64, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	info, err := l.reader.state(ctx, journalStream)
	if err != nil {
		return 0, nil, err
	}
	if info.Msgs == 0 {
		return info.LastSeq, nil, nil
	}
	b, err := l.reader.record(ctx, info.LastSeq)
	if errors.Is(err, errNotStored) {
		return info.LastSeq, nil, nil // there, and unreadable
	}
	if err != nil {
		return 0, nil, err
	}
	return info.LastSeq, messages.Hash(b), nil
}

// parseAck reads the reply to one publish. The reply's subject names attempt and record.
func parseAck(m *nats.Msg) (ack, error) {
	rest, seq, ok := cutLast(m.Subject)
	_, attempt, ok2 := cutLast(rest)
	if !ok || !ok2 {
		return ack{}, fmt.Errorf("an acknowledgement on %q names no record", m.Subject)
	}
	n, err1 := strconv.ParseUint(seq, 10, 64)
	g, err2 := strconv.ParseUint(attempt, 10, 32)
	if err := errors.Join(err1, err2); err != nil {
		return ack{}, err
	}
	a := ack{attempt: uint32(g), seq: n}
	if stored, ok := storedAs(m.Data); ok && stored == n {
		return a, nil
	}
	a.err = refusal(m, n)
	return a, nil
}

func cutLast(subject string) (before, last string, ok bool) {
	i := strings.LastIndexByte(subject, '.')
	if i < 0 {
		return "", "", false
	}
	return subject[:i], subject[i+1:], true
}

// storedAs reads the number from the reply that nearly every publish gets, without decoding it.
func storedAs(b []byte) (uint64, bool) {
	if bytes.Contains(b, []byte(`"error"`)) {
		return 0, false
	}
	_, rest, ok := bytes.Cut(b, []byte(`"seq":`))
	if !ok {
		return 0, false
	}
	n, end := uint64(0), 0
	for ; end < len(rest) && rest[end] >= '0' && rest[end] <= '9'; end++ {
		n = n*10 + uint64(rest[end]-'0')
	}
	return n, end > 0
}

func refusal(m *nats.Msg, seq uint64) error {
	if m.Header.Get("Status") == "503" {
		return errors.New("the journal's stream has no responder")
	}
	var reply struct {
		Seq   uint64              `json:"seq"`
		Error *jetstream.APIError `json:"error"`
	}
	if err := bounded.JSON(m.Data, maxPayload, &reply); err != nil {
		return fmt.Errorf("decode the acknowledgement of the journal's stream: %w", err)
	}
	if reply.Error != nil {
		return reply.Error
	}
	return fmt.Errorf("the journal's stream stored record %d as %d", seq, reply.Seq)
}
