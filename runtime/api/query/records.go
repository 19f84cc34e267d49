package query

import (
	"context"
	"encoding/hex"
	"errors"
	"sort"
	"time"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history"
)

// errPageFull stops reading records for a page.
var errPageFull = errors.New("the page is full")

// limits bound one page.
type limits struct {
	events, bytes, scan int
}

var pageLimits = limits{MaxPageEvents, maxPageBytes, maxScan}

func (s *server) readRecords(ctx context.Context, q ReadRequest) (*Page, error) {
	return s.readPage(ctx, q, pageLimits, whole)
}

// whole is the view of a record for who may see all of it.
func whole(rec *journaletv1.Record) *journaletv1.Record { return rec }

// readPage returns a page of the events in view's records.
func (s *server) readPage(
	ctx context.Context, q ReadRequest, most limits, view func(*journaletv1.Record) *journaletv1.Record,
) (*Page, error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	if q.Limit == 0 {
		q.Limit = MaxRecords
	}
	page := &Page{Events: []messages.Flat{}, First: s.Journal.First(), Last: s.Journal.Last()}
	from, err := s.begin(ctx, q, page)
	if err != nil {
		return nil, err
	}
	q.Node = s.Node
	if err := s.resolvePods(ctx, &q.Filter); err != nil {
		return nil, err
	}
	q.Record = func(seq uint64) ([]messages.Flat, error) { return s.flatRecord(ctx, seq) }
	p := pager{q: &q, most: most, node: s.Node, page: page, view: view}
	page.Next = from
	if from <= page.Last {
		if err := s.Journal.Read(ctx, from, page.Last, "", p.take); err != nil && !errors.Is(err, errPageFull) {
			return nil, err
		}
		if !p.full {
			page.Next = page.Last + 1
		}
	}
	page.Filter = q.Filter
	return page, nil
}

func (q *ReadRequest) check() error {
	if q.Limit < 0 || q.Limit > MaxRecords {
		return badRequest("limit is %d: want 1 to %d, or 0 for the maximum", q.Limit, MaxRecords)
	}
	if err := q.Check(); err != nil {
		return badRequest("%v", err)
	}
	begins := 0
	for _, given := range []bool{q.From > 0, !q.Since.IsZero(), q.After != nil} {
		if given {
			begins++
		}
	}
	if begins > 1 {
		return badRequest("more than one of from, since and after is given: want one of them")
	}
	return nil
}

// begin returns the first record of a page.
func (s *server) begin(ctx context.Context, q ReadRequest, page *Page) (uint64, error) {
	switch {
	case !q.Since.IsZero():
		return s.firstOf(ctx, page, func(rec *journaletv1.Record) bool { return !rec.GetTime().AsTime().Before(q.Since) })
	case q.After != nil:
		return s.after(ctx, *q.After, page)
	}
	return max(q.From, page.First, 1), nil
}

// after returns the first record that has events after a position.
func (s *server) after(ctx context.Context, p messages.Position, page *Page) (uint64, error) {
	if p.Seq < page.First {
		return max(page.First, 1), nil
	}
	if p.Seq <= page.Last {
		rec, err := s.Journal.Get(ctx, p.Seq)
		if err != nil && !errors.Is(err, bus.ErrNoRecord) {
			return 0, err
		}
		if err != nil || rec.GetEpoch() == p.Epoch {
			return p.Seq, nil
		}
	}
	// The journal has lost its tail, with the record at the position: what came after it is of later runs.
	return s.firstOf(ctx, page, func(rec *journaletv1.Record) bool { return rec.GetEpoch() > p.Epoch })
}

// flatRecord returns the events of a record for a filter.
func (s *server) flatRecord(ctx context.Context, seq uint64) ([]messages.Flat, error) {
	if seq < s.Journal.First() || seq > s.Journal.Last() {
		return nil, history.ErrNoRecord
	}
	rec, err := s.Journal.Get(ctx, seq)
	if errors.Is(err, bus.ErrNoRecord) {
		return nil, history.ErrNoRecord
	}
	if err != nil {
		return nil, err
	}
	return messages.FlattenLazily(s.Node, rec), nil
}

// pager fills one page.
type pager struct {
	q             *ReadRequest
	most          limits
	node          string
	view          func(*journaletv1.Record) *journaletv1.Record
	page          *Page
	records, size int
	scanned       int
	full          bool
}

func (p *pager) take(rec *journaletv1.Record, _ int) error {
	p.scanned++
	p.full = p.records == p.q.Limit || len(p.page.Events) >= p.most.events || p.size >= p.most.bytes ||
		p.scanned > p.most.scan
	if p.full {
		return errPageFull
	}
	before := len(p.page.Events)
	for _, f := range messages.FlattenLazily(p.node, p.view(rec)) {
		wanted, err := p.q.Match(&f)
		if err != nil {
			return err
		}
		if wanted && (p.q.After == nil || p.q.After.Before(f.Position())) && f.Encode() {
			p.page.Events = append(p.page.Events, f)
			p.size += len(f.Data)
		}
	}
	if len(p.page.Events) > before {
		p.records++
	}
	p.page.Next = rec.GetSeq() + 1
	return nil
}

// resolvePods adds the UIDs that the filter's pods have now. Those of pods of the past are in the journal.
func (s *server) resolvePods(ctx context.Context, f *history.Filter) error {
	if !f.SelectsPods() || len(f.UIDs) > 0 {
		return nil
	}
	all, err := s.views(ctx)
	for _, v := range all {
		f.AddPod(v.ref.ID, v.pod.Namespace, v.pod.Name)
	}
	return err
}

// firstOf returns the first record of the journal that f is true for; last+1 if f is true for no record. f must be true
// for all later records, except for times: records carry the machine's clock, and if it was set back, firstOf returns
// any record that qualifies.
func (s *server) firstOf(ctx context.Context, page *Page, f func(*journaletv1.Record) bool) (uint64, error) {
	if page.Last < page.First {
		return page.Last + 1, nil
	}
	var failed error
	n := sort.Search(int(page.Last-page.First+1), func(i int) bool {
		if failed != nil {
			return true
		}
		seq := page.First + uint64(i)
		rec, err := s.Journal.Get(ctx, seq)
		for ; errors.Is(err, bus.ErrNoRecord) && seq < page.Last; seq++ { // it is damaged
			rec, err = s.Journal.Get(ctx, seq+1)
		}
		if err != nil {
			failed = err
			return true
		}
		return f(rec)
	})
	return page.First + uint64(n), failed
}

func (s *server) getRecord(ctx context.Context, q GetRequest) (*RecordReport, error) {
	if q.Seq == 0 {
		return nil, badRequest("no record given: want its seq, from 1")
	}
	if q.Seq < s.Journal.First() || q.Seq > s.Journal.Last() {
		return nil, notFound("record %d not found: the journal holds %d to %d", q.Seq, s.Journal.First(), s.Journal.Last())
	}
	rec, err := s.Journal.Get(ctx, q.Seq)
	if err != nil {
		return nil, err
	}
	lines, err := s.renderRecord(ctx, rec)
	if err != nil {
		return nil, err
	}
	return &RecordReport{Seq: rec.GetSeq(), Hash: hex.EncodeToString(rec.GetPreviousHash()), Events: lines}, nil
}

func (s *server) size(ctx context.Context, _ struct{}) (bus.SizeReport, error) {
	return s.Journal.Size(ctx)
}

func (s *server) info(_ context.Context, _ struct{}) (*Info, error) {
	on := s.NodeView()
	i := &Info{
		Node: s.Node, Version: s.Version, Started: s.Started.UTC(), Epoch: s.Epoch,
		Runtime: on.RuntimeName, HostIPs: on.HostIPs, Simulated: s.Simulated, Actors: map[string]int{},
		JournalFirst: s.Journal.First(), JournalLast: s.Journal.Last(), Time: time.Now().UTC(),
	}
	for n := range journaletv1.ActorKind_name {
		kind := journaletv1.ActorKind(n)
		if refs := s.Host.Refs(kind); len(refs) > 0 {
			i.Actors[refs[0].KindName()] = len(refs)
		}
	}
	for ref := range s.Host.Quarantines() {
		i.Quarantined = append(i.Quarantined, ref.String())
	}
	sort.Strings(i.Quarantined)
	return i, nil
}
