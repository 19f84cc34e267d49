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

func (s *server) readRecords(ctx context.Context, q ReadRequest) (*Page, error) {
	if q.Limit < 0 || q.Limit > MaxRecords {
		return nil, badRequest("limit is %d: want 1 to %d, or 0 for the maximum", q.Limit, MaxRecords)
	}
	if q.Limit == 0 {
		q.Limit = MaxRecords
	}
	if err := q.Check(); err != nil {
		return nil, badRequest("%v", err)
	}
	if q.From > 0 && !q.Since.IsZero() {
		return nil, badRequest("both from and since are given: want one of them")
	}
	page := &Page{Events: []messages.Flat{}, First: s.Journal.First(), Last: s.Journal.Last()}
	from := max(q.From, page.First, 1)
	if !q.Since.IsZero() {
		var err error
		if from, err = s.seqAt(ctx, q.Since, page.First, page.Last); err != nil {
			return nil, err
		}
	}
	q.Node = s.Node
	if err := s.resolvePod(ctx, &q.Filter); err != nil {
		return nil, err
	}
	p := pager{q: &q, node: s.Node, page: page}
	page.Next = from
	if from <= page.Last {
		if err := s.Journal.Read(ctx, from, page.Last, "", p.take); err != nil && !errors.Is(err, errPageFull) {
			return nil, err
		}
		if !p.full {
			page.Next = page.Last + 1
		}
	}
	page.UIDs = q.UIDs
	return page, nil
}

// pager fills one page.
type pager struct {
	q             *ReadRequest
	node          string
	page          *Page
	records, size int
	scanned       int
	full          bool
}

func (p *pager) take(rec *journaletv1.Record, _ int) error {
	p.scanned++
	p.full = p.records == p.q.Limit || len(p.page.Events) >= MaxPageEvents || p.size >= maxPageBytes ||
		p.scanned > maxScan
	if p.full {
		return errPageFull
	}
	author := messages.RefOf(rec.GetActor())
	wanted := map[int]bool{}
	for i, e := range messages.Events(rec) {
		if messages.EventName(e) != "" && p.q.Match(author, e) {
			wanted[i] = true
		}
	}
	if len(wanted) > 0 {
		p.records++
		for _, f := range messages.Flatten(p.node, rec) {
			if wanted[index(&f)] {
				p.page.Events = append(p.page.Events, f)
				p.size += len(f.Data)
			}
		}
	}
	p.page.Next = rec.GetSeq() + 1
	return nil
}

// resolvePod adds the UID that the filter's pod has now.
func (s *server) resolvePod(ctx context.Context, f *history.Filter) error {
	if f.Pod == "" || len(f.UIDs) > 0 {
		return nil
	}
	v, _, err := s.findPod(ctx, f.Pod, "")
	switch {
	case IsNotFound(err):
		return nil // a pod of the past: its UIDs are in the journal
	case err != nil:
		return err
	}
	f.AddUID(v.ref.ID)
	return nil
}

// seqAt returns the first record at or after a time, last+1 for none. Records carry the machine's clock: if it was set
// back, more than one record qualifies, and seqAt returns any of them.
func (s *server) seqAt(ctx context.Context, t time.Time, first, last uint64) (uint64, error) {
	if last < first {
		return last + 1, nil
	}
	var failed error
	n := sort.Search(int(last-first+1), func(i int) bool {
		if failed != nil {
			return true
		}
		rec, err := s.Journal.Get(ctx, first+uint64(i))
		if err != nil {
			failed = err
			return true
		}
		return !rec.GetTime().AsTime().Before(t)
	})
	return first + uint64(n), failed
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
