package why

import (
	"bytes"
	"cmp"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history"
)

// findPod returns the UID of the pod that a query names: the pod of this name that is there at the journal's end, else
// the only pod that has had the name.
func (x *explainer) findPod(q Query) (string, error) {
	name := q.Pod
	if q.UID != "" {
		name = q.UID
	}
	set, barrier := x.snapshots(x.j.last)
	f := &finder{x: x, q: q, name: name, pods: map[string]*Incarnation{}, present: map[string]bool{}}
	for ref, s := range set {
		if ref.Kind != journaletv1.ActorKind_ACTOR_KIND_POD || !f.mayName(s.GetState()) && ref.ID != name {
			continue
		}
		if st := podState(s); st != nil {
			f.add(ref.ID, st.GetPod(), barrier)
			f.present[ref.ID] = st.GetStage() != journaletv1.PodStage_POD_STAGE_FINISHED
		}
	}
	if err := f.read(barrier+1, x.j.last); err != nil {
		return "", err
	}
	if hits := f.hits(true); len(hits) == 1 {
		return hits[0].UID, nil
	} else if len(hits) == 0 && barrier > 0 { // a pod of the past
		if err := f.read(x.j.first, barrier); err != nil {
			return "", err
		}
	}
	return f.choose()
}

// finder finds the pods that have had a name.
type finder struct {
	x    *explainer
	q    Query
	name string // a name, namespace/name or UID
	pods map[string]*Incarnation
	// present are the UIDs of pods that had not finished.
	present map[string]bool
}

// text is what an encoded message that names a pod of the name holds.
func (f *finder) text() string {
	if _, name, ok := strings.Cut(f.name, "/"); ok {
		return name
	}
	return f.name
}

// mayName reports whether an encoded message may hold the name.
func (f *finder) mayName(b []byte) bool { return bytes.Contains(b, []byte(f.text())) }

// read reads records for pods of the name. Of known pods it reads when they come and go.
func (f *finder) read(from, to uint64) error {
	var err error
	if f.x.j.finder != nil {
		err = f.search(from, to)
	} else {
		err = f.x.j.forward(from, to, f.record)
	}
	if errors.Is(err, errLimit) {
		return nil
	}
	return err
}

// search is read by searching for the name. Records of pods that have it hold their UIDs, and may not hold the name:
// unless the name is a UID, the records are searched again for all of them.
func (f *finder) search(from, to uint64) error {
	named := f.clone()
	texts := []string{f.text()}
	if err := f.x.j.search(texts, from, to, named.record); err != nil {
		return err
	}
	for uid := range named.pods {
		if !strings.Contains(uid, texts[0]) {
			texts = append(texts, uid)
		}
	}
	switch {
	case len(texts) == 1:
		*f = *named
		return nil
	case len(texts) > maxTexts:
		return f.x.j.forward(from, to, f.record)
	}
	return f.x.j.search(texts, from, to, f.record)
}

// clone returns a finder that has found the same.
func (f *finder) clone() *finder {
	c := *f
	c.pods, c.present = map[string]*Incarnation{}, maps.Clone(f.present)
	for uid, p := range f.pods {
		known := *p
		c.pods[uid] = &known
	}
	return &c
}

// maxTexts bounds the texts that records are searched for at once: with more, reading all records is no slower.
const maxTexts = 16

// record takes what one record shows of pods of the name. It never ends a read.
func (f *finder) record(h head, b []byte) bool {
	known := h.author.Kind == journaletv1.ActorKind_ACTOR_KIND_POD && f.pods[h.author.ID] != nil
	if !known && !f.mayName(b) {
		return false
	}
	rec, err := messages.Decode(b)
	if err != nil {
		return false
	}
	for _, e := range eventsOf(rec) {
		f.event(e)
	}
	return false
}

func (f *finder) event(e Event) {
	for _, ref := range history.NamedPods(e.Body) {
		if f.matches(ref) && e.Body.GetManifestIgnored() == nil && e.Body.GetManifestsRead() == nil {
			f.add(ref.GetUid(), ref, e.Seq)
			f.present[ref.GetUid()] = true
		}
	}
	if o := e.Body.GetPodObserved(); o != nil && f.pods[o.GetUid()] == nil {
		shown := &journaletv1.PodRef{Uid: o.GetUid(), Namespace: o.GetPodNamespace(), Name: o.GetPodName()}
		if f.matches(shown) {
			f.add(o.GetUid(), shown, e.Seq)
			f.present[o.GetUid()] = true
		}
	}
	for _, uid := range history.PodsOf(e.Author, e.Body) {
		if p := f.pods[uid]; p != nil {
			f.extend(p, e)
		}
	}
	if gone := e.Body.GetPodFinished().GetUid() + e.Body.GetPodForgotten().GetUid(); f.pods[gone] != nil {
		f.present[gone] = false
	}
}

func (f *finder) matches(ref *journaletv1.PodRef) bool {
	node := strings.ReplaceAll(f.x.j.r.Node(), "_", ".") // names of nodes hold dots, tokens of subjects none
	return ref.GetUid() == f.name || history.MatchesName(f.name, node, ref.GetNamespace(), ref.GetName())
}

func (f *finder) add(uid string, ref *journaletv1.PodRef, seq uint64) {
	ref = cmp.Or(ref, &journaletv1.PodRef{})
	named := &journaletv1.PodRef{Uid: uid, Namespace: ref.GetNamespace(), Name: ref.GetName()}
	if !f.matches(named) || f.q.Namespace != "" && f.q.Namespace != ref.GetNamespace() {
		return
	}
	p := f.pods[uid]
	if p == nil {
		p = &Incarnation{FirstSeq: seq, LastSeq: seq}
		f.pods[uid] = p
	}
	p.Pod = Pod{Namespace: ref.GetNamespace(), Name: ref.GetName(), UID: uid}
}

// extend has an event count as one of a pod.
func (f *finder) extend(p *Incarnation, e Event) {
	if p.FirstSeq == 0 || e.Seq <= p.FirstSeq {
		p.FirstSeq, p.First = e.Seq, e.Time
	}
	if e.Seq >= p.LastSeq {
		p.LastSeq, p.Last = e.Seq, e.Time
	}
}

// hits returns the pods of the name, sorted by their last record; with present, only the pods that are there.
func (f *finder) hits(present bool) []Incarnation {
	var out []Incarnation
	for uid, p := range f.pods {
		if uid == f.name {
			return []Incarnation{*p}
		}
		if !present || f.present[uid] {
			out = append(out, *p)
		}
	}
	slices.SortFunc(out, func(a, b Incarnation) int {
		return cmp.Or(cmp.Compare(a.LastSeq, b.LastSeq), cmp.Compare(a.UID, b.UID))
	})
	return out
}

func (f *finder) choose() (string, error) {
	hits := f.hits(true)
	if len(hits) == 0 {
		hits = f.hits(false)
	}
	switch len(hits) {
	case 0:
		return "", notFound("pod %q is not in the journal, which holds records %d to %d of node %s: `journalet pods` lists "+
			"the pods that are there", f.name, f.x.j.first, f.x.j.last, f.x.j.r.Node())
	case 1:
		return hits[0].UID, nil
	}
	for i := range hits {
		f.times(&hits[i])
	}
	return "", &AmbiguousError{Name: f.name, Pods: hits}
}

// times fills in when a pod's first and last records were written.
func (f *finder) times(p *Incarnation) {
	if rec, err := f.x.j.get(p.FirstSeq); err == nil && p.First.IsZero() {
		p.First = rec.GetTime().AsTime()
	}
	if rec, err := f.x.j.get(p.LastSeq); err == nil && p.Last.IsZero() {
		p.Last = rec.GetTime().AsTime()
	}
}
