package messages

import (
	"bytes"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/journalet/journalet/messages/journaletv1"
)

func TestADecisionIDReadsBackAsItWasMade(t *testing.T) {
	for _, want := range []Decision{
		{1, 2, Pod("0a1b2c"), 0}, {18446744073709551615, 1, Source("file"), 12}, {7, 9, Runtime, 3},
	} {
		id := DecisionID(want.Epoch, want.Cause, want.Author, want.Index)
		got, err := ParseDecisionID(id)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v: want %+v", id, got, err, want)
		}
	}
	for _, bad := range []string{"", "1", "1.2", "1.2.pod/a", "x.2.pod/a.0", "1.x.pod/a.0", "1.2.pod.0", "1.2.nobody/a.0", "1.2.pod/a.x", "1.2.pod/.0"} {
		if d, err := ParseDecisionID(bad); err == nil {
			t.Errorf("%q was read as %+v", bad, d)
		}
	}
}

func TestSubjectsKeepANodesNameInOneToken(t *testing.T) {
	fact := &journaletv1.Record{Actor: Pod("u").Proto(), Body: &journaletv1.Record_Fact{Fact: &journaletv1.Event{
		Kind: &journaletv1.Event_PodObserved{PodObserved: &journaletv1.PodObserved{Uid: "u"}},
	}}}
	step := &journaletv1.Record{Actor: Runtime.Proto(), Body: &journaletv1.Record_Step{Step: &journaletv1.Step{}}}
	for got, want := range map[string]string{
		Subject("a.b.example", fact):                  "node.a_b_example.pod.u.pod_observed",
		Subject("n1", step):                           "node.n1.runtime.0.decided",
		EventSubject("a.b", Pod("u"), "pod_observed"): "event.a_b.pod.u.pod_observed",
		ManifestSubject("a.b", "sha256:00ff"):         "manifest.a_b.sha256-00ff",
		ActorFilter("a.b", Pod("u")):                  "node.a_b.pod.u.>",
	} {
		if got != want {
			t.Errorf("subject %s, want %s", got, want)
		}
	}
}

// TestEveryEventHasASetAudience goes over the whole contract, so that a new event is not forgotten in
// the table: what hears it stands here a second time, in words.
func TestEveryEventHasASetAudience(t *testing.T) {
	want := map[string]string{
		"agent_started": "everyone", "timer_fired": "pod/author", "manifests_read": "source/s", "pod_observed": "pod/u",
		"call_finished": "runtime/0 pod/p", "runtime_health_changed": "runtime/0", "probe_result": "pod/u", "gates_read": "pod/u",
		"pod_updated": "pod/u", "admission_asked": "node/0", "image_asked": "image/0", "image_released": "image/0",
		"call_requested": "runtime/0", "call_withdrawn": "runtime/0", "call_dropped": "pod/p",
		"pod_terminated": "node/0", "pod_finished": "source/s node/0 image/0",
		"uid_asked": "node/0", "uid_released": "node/0", "uid_granted": "source/s", "uid_deferred": "source/s",
		"source_settled": "node/0", "source_asked": "source/s", "orphan_found": "node/0", "orphan_disowned": "pod/u",
		"admission_decided": "pod/u", "admission_deferred": "pod/u", "admission_held": "pod/u pod/v", "resize_held": "pod/u pod/v", "image_answered": "pod/u",
		"agent_stopped": "", "journal_damaged": "", "quarantined": "", "released": "", "pull_progressed": "",
		"manifest_ignored": "", "source_ready": "", "pod_forgotten": "", "pod_status_changed": "", "back_off_started": "",
		"pod_ending": "", "probes_set": "", "gates_set": "", "restarting_all": "", "call_dispatched": "", "resize_asked": "node/0", "resize_decided": "pod/u", "resize_resumed": "", "addition_asked": "node/0", "addition_decided": "pod/u", "resize_finished": "", "timer_set": "", "timer_cleared": "",
	}
	kinds := (&journaletv1.Event{}).ProtoReflect().Descriptor().Fields()
	for i := range kinds.Len() {
		fd := kinds.Get(i)
		e := &journaletv1.Event{}
		body := e.ProtoReflect().Mutable(fd).Message()
		for name, value := range map[string]string{"uid": "u", "source": "s", "asker": "pod/p"} {
			if f := body.Descriptor().Fields().ByName(protoreflect.Name(name)); f != nil {
				body.Set(f, protoreflect.ValueOfString(value))
			}
		}
		if u := e.GetPodUpdated(); u != nil {
			u.Pod = &journaletv1.PodRef{Uid: "u"}
		}
		if h := e.GetAdmissionHeld(); h != nil {
			h.Preempts = []string{"v"}
		}
		if h := e.GetResizeHeld(); h != nil {
			h.Preempts = []string{"v"}
		}
		refs, all := Audience(Pod("author"), e)
		var got []string
		for _, r := range refs {
			got = append(got, r.String())
		}
		if all {
			got = []string{"everyone"}
		}
		w, known := want[string(fd.Name())]
		if s := strings.Join(got, " "); !known || s != w {
			t.Errorf("%s is heard by %q, want %q (known here: %v)", fd.Name(), s, w, known)
		}
	}
}

func TestTheSameRecordHasTheSameBytesAndHash(t *testing.T) {
	rec := &journaletv1.Record{
		Seq: 3, Epoch: 1, Time: timestamppb.Now(), Actor: Pod("u").Proto(), PreviousHash: []byte("0123456789abcdef"),
		Body: &journaletv1.Record_Step{Step: &journaletv1.Step{Cause: 2, After: 1, Decisions: []*journaletv1.Event{{
			Kind: &journaletv1.Event_PodStatusChanged{PodStatusChanged: &journaletv1.PodStatusChanged{
				Waiting: map[string]*journaletv1.Waiting{"a": {Reason: "x"}, "b": {Reason: "y"}, "c": {Reason: "z"}},
			}},
		}}}},
	}
	one, err := Encode(rec)
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		again, err := Encode(proto.CloneOf(rec))
		if err != nil || !bytes.Equal(one, again) {
			t.Fatalf("two encodings of one record differ, %v", err)
		}
	}
	back, err := Decode(one)
	if err != nil || !proto.Equal(rec, back) {
		t.Fatalf("%v, %v", back, err)
	}
	if len(Hash(one)) != HashBytes || bytes.Equal(Hash(one), Hash(one[1:])) {
		t.Fatalf("hash %x", Hash(one))
	}
}

func TestARecordBeyondTheBoundIsRefused(t *testing.T) {
	rec := &journaletv1.Record{Seq: 9, Body: &journaletv1.Record_Fact{Fact: &journaletv1.Event{
		Kind: &journaletv1.Event_AgentStopped{AgentStopped: &journaletv1.AgentStopped{Reason: strings.Repeat("x", MaxRecordBytes)}},
	}}}
	if _, err := Encode(rec); err == nil || !strings.Contains(err.Error(), "record 9") {
		t.Fatalf("error %v", err)
	}
}
