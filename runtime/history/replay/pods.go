package replay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history"
)

// Incarnation is a pod of a journal. Several pods may have had one name.
type Incarnation struct {
	UID       string `json:"uid"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	// First and Last are the first and the last record that name it, and their times.
	First     uint64    `json:"first"`
	Last      uint64    `json:"last"`
	FirstTime time.Time `json:"firstTime"`
	LastTime  time.Time `json:"lastTime"`
}

// ErrNoPod means that a journal names no such pod.
var ErrNoPod = errors.New("the journal names no such pod")

// maxIncarnations bounds the pods of one name that are listed, the newest ones.
const maxIncarnations = 256

// Incarnations returns the pods that a name, namespace/name or UID stands for, in the order of their first records; the
// name may lack a static pod's suffix, -<node>. ErrNoPod if no pod matches. It reads the whole journal once, without
// decoding records that cannot name the pod.
func Incarnations(ctx context.Context, src history.Reader, wanted string) ([]Incarnation, error) {
	f := finder{wanted: wanted, node: strings.ReplaceAll(src.Node(), "_", "."), found: map[string]*Incarnation{}}
	if err := f.fromSnapshots(ctx, src); err != nil {
		return nil, err
	}
	if err := src.Read(ctx, 0, 0, f.read); err != nil {
		return nil, err
	}
	var out []Incarnation
	for _, p := range f.found {
		if p.First > 0 {
			out = append(out, *p)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("%w: %q", ErrNoPod, wanted)
	}
	slices.SortFunc(out, func(a, b Incarnation) int { return int(int64(a.First - b.First)) })
	return out[max(0, len(out)-maxIncarnations):], nil
}

// finder looks for the pods of one name.
type finder struct {
	wanted, node string
	found        map[string]*Incarnation
}

// fromSnapshots adds the pods whose first records are gone, but not their states.
func (f *finder) fromSnapshots(ctx context.Context, src history.Reader) error {
	if first, _ := src.Bounds(); first <= 1 {
		return nil
	}
	b, err := firstBase(ctx, src)
	var none errNoBase
	if errors.As(err, &none) {
		return nil
	}
	for _, s := range b.snaps {
		var st journaletv1.PodState
		if s.GetActor().GetKind() == journaletv1.ActorKind_ACTOR_KIND_POD && proto.Unmarshal(s.GetState(), &st) == nil {
			f.add(st.GetPod())
		}
	}
	return err
}

func (f *finder) add(p *journaletv1.PodRef) *Incarnation {
	uid := p.GetUid()
	if uid == "" || f.found[uid] == nil && uid != f.wanted &&
		!history.MatchesName(f.wanted, f.node, p.GetNamespace(), p.GetName()) {
		return f.found[uid]
	}
	x := f.found[uid]
	if x == nil {
		x = &Incarnation{UID: uid}
		f.found[uid] = x
	}
	if p.GetName() != "" {
		x.Namespace, x.Name = p.GetNamespace(), p.GetName()
	}
	return x
}

// read adds what one record names.
func (f *finder) read(e history.Entry) error {
	name := f.wanted[strings.IndexByte(f.wanted, '/')+1:]
	may := bytes.Contains(e.Bytes, []byte(name))
	for uid := range f.found {
		may = may || bytes.Contains(e.Bytes, []byte(uid))
	}
	if !may {
		return nil
	}
	rec, err := decode(e)
	if err != nil {
		return err
	}
	author := messages.RefOf(rec.GetActor())
	for _, event := range messages.Events(rec) {
		for _, p := range history.NamedPods(event) {
			f.add(p)
		}
		for _, uid := range history.PodsOf(author, event) {
			x := f.add(&journaletv1.PodRef{Uid: uid})
			if x == nil {
				continue
			}
			at := rec.GetTime().AsTime()
			if x.First == 0 {
				x.First, x.FirstTime = e.Seq, at
			}
			x.Last, x.LastTime = e.Seq, at
		}
	}
	return nil
}
