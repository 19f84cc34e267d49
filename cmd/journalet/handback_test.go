package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history/open"
	"github.com/journalet/journalet/runtime/history/replay"
	"github.com/journalet/journalet/runtime/kubeletstate"
	"github.com/journalet/journalet/runtime/takeover/preview"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/simulation"
)

// The state files of a kubelet have the exclusive resources of each running pod when the journal ends, here in the
// middle of a simulated day.
func TestHandbackWritesWhatThePodsOfTheJournalHave(t *testing.T) {
	m := simulation.Run(simulation.Exclusive(3), simulation.Options{}).History()
	m.Records = m.Records[:len(m.Records)*2/3]
	root := t.TempDir()
	storeBelow(t, root, m)
	st, err := replay.StateAt(t.Context(), m, messages.Node, 0)
	must.OK(t, err)
	want := map[string]*journaletv1.KubeletPod{}
	for uid, p := range st.Message.(*journaletv1.NodeState).GetPods() {
		if !p.GetTerminated() && len(p.GetExclusive())+len(p.GetDevices()) > 0 {
			want[uid] = &journaletv1.KubeletPod{Exclusive: p.GetExclusive(), Devices: p.GetDevices()}
			must.OK(t, os.MkdirAll(filepath.Join(root, "pods", uid), 0o700))
		}
	}
	if len(want) < 2 {
		t.Fatalf("%d pods have exclusive resources, and two are needed to compare: take another seed", len(want))
	}
	found := &preview.Report{}
	must.OK(t, handBack(t.Context(), root, found))
	if !slices.Equal(found.Written, kubeletstate.Files(root)) {
		t.Errorf("the report names %q", found.Written)
	}
	got := kubeletstate.Read(root)
	if len(got.GetPods()) != len(want) || len(got.GetProblems()) > 0 {
		t.Errorf("%d pods, want %d; %q", len(got.GetPods()), len(want), got.GetProblems())
	}
	for uid, p := range want {
		if has := got.GetPods()[uid]; !proto.Equal(inStateFile(has), inStateFile(p)) {
			t.Errorf("%s: got %s, want %s", uid, protojson.Format(has), protojson.Format(p))
		}
	}
	// The kubelet has other files by now: repeating the command leaves them, and what the journal tells is not lost.
	must.OK(t, os.WriteFile(filepath.Join(root, kubeletstate.CPUFile), []byte("the kubelet's"), 0o600))
	again := &preview.Report{}
	must.OK(t, handBack(t.Context(), root, again))
	kept, err := os.ReadFile(filepath.Join(root, kubeletstate.CPUFile))
	if must.OK(t, err); string(kept) != "the kubelet's" || len(again.Written) > 0 || again.Journal != found.Journal {
		t.Errorf("a repeated command wrote %q: %q; the journal is at %q", again.Written, kept, again.Journal)
	}
	if code, stdout, stderr := run(t.Context(), "why", "#2", "--journal", found.Journal); code != 0 {
		t.Errorf("why of the journal: exit code %d, %q, %q", code, stdout, stderr)
	}
	// An agent that was killed at once has left no journal: the journal from before is not replaced by it.
	must.OK(t, os.Mkdir(filepath.Join(root, "bus"), 0o700))
	must.OK(t, handBack(t.Context(), root, again))
	if code, _, stderr := run(t.Context(), "why", "#2", "--journal", again.Journal); code != 0 {
		t.Errorf("why of the journal after an empty one: exit code %d, %q", code, stderr)
	}
	if err := handBack(t.Context(), t.TempDir(), again); !errors.Is(err, open.ErrNoJournal) {
		t.Errorf("without a journal: %v", err)
	}
}

// inStateFile returns what a state file holds of a pod, by container and resource.
func inStateFile(p *journaletv1.KubeletPod) *journaletv1.KubeletPod {
	out := &journaletv1.KubeletPod{}
	for _, c := range p.GetExclusive() {
		if c.GetCpus() != "" || len(c.GetMemory()) > 0 {
			out.Exclusive = append(out.Exclusive, c)
		}
	}
	slices.SortFunc(out.Exclusive, func(x, y *journaletv1.ExclusiveContainer) int {
		return strings.Compare(x.GetContainer(), y.GetContainer())
	})
	for _, d := range p.GetDevices() {
		out.Devices = append(out.Devices, &journaletv1.ContainerDevices{
			Container: d.GetContainer(), Resource: d.GetResource(), Ids: d.GetIds(),
		})
	}
	slices.SortFunc(out.Devices, func(x, y *journaletv1.ContainerDevices) int {
		return strings.Compare(x.GetContainer()+" "+x.GetResource(), y.GetContainer()+" "+y.GetResource())
	})
	return out
}

// The command looks for a running agent first: it does not get as far as the runtime, which does not exist here.
func TestHandbackOfARunningAgentWritesNothing(t *testing.T) {
	root := t.TempDir()
	openBus(t, root, "n1")
	code, _, stderr := run(t.Context(), "handback", "--root-dir", root, "--container-runtime-endpoint", "unix:///none")
	if code != 1 || !strings.Contains(stderr, "stop it first") {
		t.Errorf("exit code %d, %q", code, stderr)
	}
	if _, err := os.Stat(filepath.Join(root, kubeletstate.CPUFile)); err == nil {
		t.Error("a state file was written")
	}
}

// A kubelet learns which claims drivers have prepared for pods.
func TestHandbackWritesTheClaimsOfTheJournal(t *testing.T) {
	m := simulation.Run(simulation.Claimed(3), simulation.Options{}).History()
	m.Records = m.Records[:len(m.Records)*2/3]
	root := t.TempDir()
	storeBelow(t, root, m)
	states, err := replay.StatesAt(t.Context(), m, 0, replay.Options{})
	must.OK(t, err)
	prepared := map[string]bool{}
	for _, st := range states {
		if p, ok := st.Message.(*journaletv1.PodState); ok {
			for _, c := range p.GetClaims().GetClaims() {
				uid := c.GetClaim().GetUid()
				prepared[uid] = prepared[uid] || c.GetStage() == journaletv1.ClaimStage_CLAIM_STAGE_PREPARED
			}
		}
	}
	if len(prepared) == 0 {
		t.Fatal("no pod has a claim: take another seed")
	}
	must.OK(t, handBack(t.Context(), root, &preview.Report{}))
	b, err := os.ReadFile(filepath.Join(root, kubeletstate.ClaimFile))
	must.OK(t, err)
	for uid, is := range prepared {
		if is && !strings.Contains(string(b), uid) {
			t.Errorf("the prepared claim %s is not in %s", uid, b)
		}
	}
}
