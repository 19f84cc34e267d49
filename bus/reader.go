package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Limits of one request to a stream. A long read is many of them.
const (
	readBatch      = 512
	readBatchBytes = 4 << 20
	readTimeout    = 10 * time.Second
)

// errNotStored means that there is no such message.
var errNotStored = errors.New("not stored")

// reader reads streams by direct get requests: stateless, many messages a reply, nothing to clean up.
type reader struct {
	nc *nats.Conn
	js jetstream.JetStream
	// blocksDir is the directory of the journal's blocks.
	blocksDir string
}

// getRequest is JetStream's direct get, as its API spells it.
type getRequest struct {
	Seq     uint64 `json:"seq,omitempty"`
	LastFor string `json:"last_by_subj,omitempty"`
	NextFor string `json:"next_by_subj,omitempty"`
	// LastForAll are subjects whose newest messages are read.
	LastForAll []string `json:"multi_last,omitempty"`
	Batch      int      `json:"batch,omitempty"`
	MaxBytes   int      `json:"max_bytes,omitempty"`
	NoHeaders  bool     `json:"no_hdr,omitempty"`
}

func directSubject(stream string) string { return "$JS.API.DIRECT.GET." + stream }

func (r *reader) state(ctx context.Context, stream string) (jetstream.StreamState, error) {
	s, err := r.js.Stream(ctx, stream)
	if err != nil {
		return jetstream.StreamState{}, fmt.Errorf("read the state of stream %s: %w", stream, err)
	}
	return s.CachedInfo().State, nil
}

// record returns the bytes of one record of the journal.
func (r *reader) record(ctx context.Context, seq uint64) ([]byte, error) {
	m, err := r.get(ctx, journalStream, getRequest{Seq: seq})
	if err != nil {
		return nil, err
	}
	return m.Data, nil
}

// latest returns the newest message on a subject.
func (r *reader) latest(ctx context.Context, stream, subject string) (*nats.Msg, error) {
	return r.get(ctx, stream, getRequest{LastFor: subject})
}

func (r *reader) get(ctx context.Context, stream string, q getRequest) (*nats.Msg, error) {
	b, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	m, err := r.nc.RequestWithContext(ctx, directSubject(stream), b)
	if err != nil {
		return nil, fmt.Errorf("read the stream %s: %w", stream, err)
	}
	if status := m.Header.Get("Status"); status == "404" {
		return nil, errNotStored
	} else if status != "" {
		return nil, fmt.Errorf("read the stream %s: status %s %s", stream, status, m.Header.Get("Description"))
	}
	return m, nil
}

// batch sends one request for messages from seq on that match filter, and returns their bytes in order. None means
// that there are no more; fewer than readBatch does not.
func (r *reader) batch(ctx context.Context, stream string, seq uint64, filter string) ([][]byte, error) {
	page, err := r.page(ctx, stream, getRequest{Seq: max(seq, 1), NextFor: filter, NoHeaders: true})
	out := make([][]byte, len(page))
	for i, m := range page {
		out[i] = m.Data
	}
	return out, err
}

// each passes the messages of a stream that are kept and match filter, "" for all, to f, in order.
func (r *reader) each(ctx context.Context, stream, filter string, f func(data []byte)) error {
	for seq := uint64(1); ; {
		page, err := r.page(ctx, stream, getRequest{Seq: seq, NextFor: filter})
		if err != nil || len(page) == 0 {
			return err
		}
		for _, m := range page {
			f(m.Data)
		}
		last, err := strconv.ParseUint(page[len(page)-1].Header.Get(jetstream.SequenceHeader), 10, 64)
		if err != nil || last < seq {
			return fmt.Errorf("read the stream %s from %d: a message has no number", stream, seq)
		}
		seq = last + 1
	}
}

// page sends one request for a batch of messages.
func (r *reader) page(ctx context.Context, stream string, q getRequest) ([]*nats.Msg, error) {
	inbox := nats.NewInbox()
	sub, err := r.nc.SubscribeSync(inbox)
	if err != nil {
		return nil, fmt.Errorf("read the stream %s: %w", stream, err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	q.Batch, q.MaxBytes = readBatch, readBatchBytes
	b, err := json.Marshal(q)
	if err != nil {
		return nil, err
	}
	if err := r.nc.PublishRequest(directSubject(stream), inbox, b); err != nil {
		return nil, fmt.Errorf("read the stream %s: %w", stream, err)
	}
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	out := make([]*nats.Msg, 0, readBatch)
	for {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return nil, fmt.Errorf("read the stream %s from %d: %w", stream, q.Seq, err)
		}
		switch status := m.Header.Get("Status"); status {
		case "":
			out = append(out, m)
		case "204", "404": // the end of the batch; nothing there
			return out, nil
		default:
			return nil, fmt.Errorf("read the stream %s from %d: status %s %s", stream, q.Seq, status,
				m.Header.Get("Description"))
		}
	}
}
