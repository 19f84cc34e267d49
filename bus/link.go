package bus

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/journalet/journalet/messages"
)

// link is what the appender needs of a stream; tests put faults into it.
type link interface {
	// publish sends one record on its way; the stream takes it only as number seq.
	publish(attempt uint32, seq uint64, subject string, data []byte) error
	// answers carry one ack for each publish, in order, except for those that got lost.
	answers() <-chan *nats.Msg
	// last is the number of the newest record in the stream and the hash of its bytes.
	last(ctx context.Context) (seq uint64, hash []byte, err error)
	// force returns once what was acknowledged is as durable as the policy asks.
	force() error
	// heal tries to bring a stream back that refuses everything.
	heal() error
	// complaint is the last thing the store itself complained of since it was asked; "" for nothing.
	complaint() string
}

// ack is one answer of the stream.
type ack struct {
	attempt uint32
	seq     uint64
	err     error
}

const (
	expectHeader = "Nats-Expected-Last-Sequence"
	askTimeout   = 5 * time.Second
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
		blocks: &blocks{dir: streamDir(e.dir, journalStream), healed: true},
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

func (l *natsLink) answers() <-chan *nats.Msg { return l.in }

func (l *natsLink) force() error {
	if !l.always {
		return nil
	}
	return l.blocks.force()
}

func (l *natsLink) heal() error { return l.srv.heal(l.blocks.rewrite) }

func (l *natsLink) complaint() string {
	if s := l.srv.log.complaint.Swap(nil); s != nil {
		return *s
	}
	return ""
}

func (l *natsLink) last(ctx context.Context) (uint64, []byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	info, err := l.reader.state(ctx, journalStream)
	if err != nil {
		return 0, nil, err
	}
	if info.Msgs == 0 {
		return info.LastSeq, nil, nil
	}
	b, err := l.reader.one(ctx, info.LastSeq)
	if errors.Is(err, errNotStored) {
		return info.LastSeq, nil, nil // there, and unreadable
	}
	if err != nil {
		return 0, nil, err
	}
	return info.LastSeq, messages.Hash(b), nil
}

// parseAck reads the answer to one publish. Whose answer it is stands in its subject.
func parseAck(m *nats.Msg) (ack, error) {
	rest, seq, ok := cutLast(m.Subject)
	_, attempt, ok2 := cutLast(rest)
	if !ok || !ok2 {
		return ack{}, fmt.Errorf("an answer on %q names no record", m.Subject)
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

// storedAs reads the number from the answer that nearly every publish gets, without unpacking it.
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
		return errors.New("the journal's stream does not answer")
	}
	var answer struct {
		Seq   uint64              `json:"seq"`
		Error *jetstream.APIError `json:"error"`
	}
	if err := json.Unmarshal(m.Data, &answer); err != nil {
		return fmt.Errorf("the journal's stream gave an answer that cannot be read: %w", err)
	}
	if answer.Error != nil {
		return answer.Error
	}
	return fmt.Errorf("the journal's stream stored record %d as %d", seq, answer.Seq)
}
