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
		"call_finished": "runtime/0 pod/p", "runtime_health_changed": "runtime/0", "probe_result": "pod/u", "readiness_gates_read": "pod/u",
		"pod_updated": "pod/u", "admission_requested": "node/0", "image_pull_requested": "image/0", "image_pull_withdrawn": "image/0",
		"call_requested": "runtime/0", "call_withdrawn": "runtime/0", "call_dropped": "pod/p",
		"pod_terminated": "node/0", "pod_finished": "source/s node/0 image/0",
		"uid_requested": "node/0", "uid_withdrawn": "node/0", "uid_granted": "source/s", "uid_deferred": "source/s",
		"source_synced": "node/0", "orphan_found": "node/0", "orphan_confirmed": "pod/u",
		"admission_decided": "pod/u", "admission_deferred": "pod/u", "admission_pending_preemption": "pod/u pod/v", "resize_pending_preemption": "pod/u pod/v", "image_pull_decided": "pod/u",
		"agent_stopped": "", "journal_damaged": "", "quarantined": "", "quarantine_lifted": "", "pull_progressed": "",
		"manifest_ignored": "", "pod_forgotten": "", "pod_status_changed": "", "back_off_started": "",
		"pod_terminating": "", "probes_set": "", "readiness_gates_set": "", "all_containers_restarting": "", "call_dispatched": "", "resize_requested": "node/0", "resize_decided": "pod/u", "resize_started": "", "resize_withdrawn": "node/0", "resize_completed": "", "timer_set": "", "timer_cleared": "",
	}
	kinds := (&journaletv1.Event{}).ProtoReflect().Descriptor().Fields()
	for i := range kinds.Len() {
		fd := kinds.Get(i)
		e := &journaletv1.Event{}
		body := e.ProtoReflect().Mutable(fd).Message()
		for name, value := range map[string]string{"uid": "u", "source": "s", "requester": "pod/p"} {
			if f := body.Descriptor().Fields().ByName(protoreflect.Name(name)); f != nil {
				body.Set(f, protoreflect.ValueOfString(value))
			}
		}
		if u := e.GetPodUpdated(); u != nil {
			u.Pod = &journaletv1.PodRef{Uid: "u"}
		}
		if h := e.GetAdmissionPendingPreemption(); h != nil {
			h.Victims = []string{"v"}
		}
		if h := e.GetResizePendingPreemption(); h != nil {
			h.Victims = []string{"v"}
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
				Waiting: map[string]*journaletv1.ContainerWaiting{"a": {Reason: "x"}, "b": {Reason: "y"}, "c": {Reason: "z"}},
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
