package source

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// desiredOfAll works out what is desired from all files, in order of their paths. Actor.updateDesired must give the
// same result from the changed files alone.
func desiredOfAll(s *journaletv1.SourceState, read *journaletv1.ManifestsRead) {
	all := allClaims(s, read)
	for _, p := range s.Pods {
		p.Desired = false
	}
	ignored, owner := map[string]*journaletv1.IgnoredManifest{}, map[string]claim{}
	for _, c := range all {
		if reason, by := taken(owner, c.ref); reason != "" {
			key := ignoredKey(c.path, c.ref)
			if ignored[key] = s.Ignored[key]; ignored[key] == nil {
				ignored[key] = &journaletv1.IgnoredManifest{Ignored: ignore(c, reason, by)}
			}
			continue
		}
		for _, key := range keysOf(c.ref) {
			owner[key] = c
		}
		if s.Pods[c.ref.GetUid()] == nil {
			s.Pods[c.ref.GetUid()] = &journaletv1.SourcePod{Stage: journaletv1.SourcePodStage_SOURCE_POD_STAGE_NEW}
		}
		p := s.Pods[c.ref.GetUid()]
		p.Pod, p.Path, p.Desired = c.ref, c.path, true
	}
	s.Ignored = ignored
	maps.DeleteFunc(s.Pods, func(_ string, p *journaletv1.SourcePod) bool {
		return !p.GetDesired() && p.GetStage() == journaletv1.SourcePodStage_SOURCE_POD_STAGE_NEW
	})
}

// allClaims returns the claims of all files: first claims to pods that the node has from the same file, then claims of
// files whose pod has this name, then claims to just the pods that the node has, then all others, each in order of the
// paths.
func allClaims(s *journaletv1.SourceState, read *journaletv1.ManifestsRead) []claim {
	byHeld := map[held][]claim{}
	for _, path := range slices.Sorted(maps.Keys(s.Files)) {
		for place, ref := range s.Files[path].GetPods() {
			c := claim{path: path, place: place, ref: ref}
			for _, p := range s.Pods {
				switch {
				case !read.GetHeldNamesStay() || !p.GetDesired() || fullName(p.GetPod()) != fullName(ref):
				case p.GetPath() != path:
					if read.GetHeldContentsStay() && proto.Equal(p.GetPod(), ref) {
						c.held = min(c.held, heldByContent)
					}
				case p.GetPod().GetUid() == ref.GetUid():
					c.held = heldByPod
				default:
					c.held = min(c.held, heldByFile)
				}
			}
			byHeld[c.held] = append(byHeld[c.held], c)
		}
	}
	return slices.Concat(byHeld[heldByPod], byHeld[heldByFile], byHeld[heldByContent], byHeld[heldByNone])
}

func randomFile(r *rand.Rand) *journaletv1.ManifestFile {
	f := &journaletv1.ManifestFile{Path: fmt.Sprintf("f%d", r.IntN(6))}
	if r.IntN(8) == 0 {
		f.Unreadable = true
		return f
	}
	for range r.IntN(4) {
		f.Pods = append(f.Pods, &journaletv1.PodRef{
			Namespace: "d", Name: fmt.Sprintf("n%d", r.IntN(5)),
			Uid: fmt.Sprintf("u%d", r.IntN(6)), Digest: fmt.Sprintf("g%d", r.IntN(3)),
		})
	}
	if r.IntN(8) == 0 {
		f.Problems = []*journaletv1.ManifestProblem{{Code: "Some"}}
	}
	return f
}

func TestPartialReadEqualsCompleteRead(t *testing.T) {
	const histories, reads = 100, 60
	for seed := range uint64(histories) {
		r := rand.New(rand.NewPCG(seed, 1))
		a := New("file")
		step := func(e *journaletv1.Event) {
			in := actors.Event{Body: e}
			if err := a.Evolve(in); err != nil {
				t.Fatal(err)
			}
			if err := actors.Decide(a, actors.Input{Events: []actors.Event{in}}, func(e *journaletv1.Event) error {
				return a.Evolve(actors.Event{Body: e})
			}); err != nil {
				t.Fatal(err)
			}
		}
		for range reads {
			if r.IntN(5) == 0 {
				b, err := proto.Marshal(a.State())
				if err != nil {
					t.Fatal(err)
				}
				if a = New("file"); a.Restore(b) != nil {
					t.Fatal("the actor's own state cannot be restored")
				}
			}
			if uids := slices.Sorted(maps.Keys(a.state.Pods)); len(uids) > 0 && r.IntN(3) == 0 {
				step(messages.NewEvent(&journaletv1.PodFinished{
					Uid: uids[r.IntN(len(uids))], Source: "file",
				}))
			}
			read := &journaletv1.ManifestsRead{Source: "file", HeldNamesStay: seed%2 == 0, HeldContentsStay: seed%4 == 0}
			for range 1 + r.IntN(3) {
				read.Changed = append(read.Changed, randomFile(r))
			}
			want := withMaps(proto.CloneOf(a.state))
			for _, f := range read.GetChanged() {
				keepFile(want, f)
			}
			desiredOfAll(want, read)
			e := messages.NewEvent(read)
			if err := a.Evolve(actors.Event{Body: e}); err != nil {
				t.Fatal(err)
			}
			if !proto.Equal(a.state, want) {
				t.Fatalf("history %d, after %v:\ngot  %v\nwant %v", seed, read, a.state, want)
			}
			if err := actors.Decide(a, actors.Input{Events: []actors.Event{{Body: e}}}, func(e *journaletv1.Event) error {
				return a.Evolve(actors.Event{Body: e})
			}); err != nil {
				t.Fatal(err)
			}
			// Nothing is left to decide, touched or not.
			pods, ignored := slices.Sorted(maps.Keys(a.state.Pods)), slices.Sorted(maps.Keys(a.state.Ignored))
			a.decide(touched{uids: pods, ignored: ignored, problems: true}, func(e *journaletv1.Event) {
				t.Errorf("history %d: left over: %v", seed, e)
			})
		}
	}
}
