package messages

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/messages/plain"
)

func TestDecisionIDRoundTrips(t *testing.T) {
	for _, want := range []Decision{
		{1, 2, Pod("0a1b2c"), 0}, {18446744073709551615, 1, Source("file"), 12}, {7, 9, Runtime, 3},
	} {
		id := DecisionID(want.Epoch, want.Cause, want.Author, want.Index)
		got, err := ParseDecisionID(id)
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v: want %+v", id, got, err, want)
		}
	}
	for _, bad := range []string{
		"", "1", "1.2", "1.2.pod/a", "x.2.pod/a.0", "1.x.pod/a.0", "1.2.pod.0", "1.2.unknown/a.0", "1.2.pod/a.x",
		"1.2.pod/.0",
	} {
		if d, err := ParseDecisionID(bad); err == nil {
			t.Errorf("%q was read as %+v", bad, d)
		}
	}
}

func TestSubjectHoldsNodeNameInOneToken(t *testing.T) {
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

func TestVictimsReceiveThePreemption(t *testing.T) {
	for _, e := range []*journaletv1.Event{
		{Kind: &journaletv1.Event_AdmissionPendingPreemption{
			AdmissionPendingPreemption: &journaletv1.AdmissionPendingPreemption{Uid: "u", Victims: []string{"v", "w"}},
		}},
		{Kind: &journaletv1.Event_ResizePendingPreemption{
			ResizePendingPreemption: &journaletv1.ResizePendingPreemption{Uid: "u", Victims: []string{"v", "w"}},
		}},
	} {
		audience, everyone := Audience(Node, e)
		if !slices.Equal(audience, []Ref{Pod("u"), Pod("v"), Pod("w")}) || everyone {
			t.Errorf("%s: %v, everyone: %v", EventName(e), audience, everyone)
		}
	}
}

func TestTimerReturnsToItsAuthor(t *testing.T) {
	fired := &journaletv1.Event{Kind: &journaletv1.Event_TimerFired{TimerFired: &journaletv1.TimerFired{}}}
	if audience, everyone := Audience(Image, fired); !slices.Equal(audience, []Ref{Image}) || everyone {
		t.Errorf("%v, everyone: %v", audience, everyone)
	}
}

func TestEqualRecordsHaveEqualBytesAndHash(t *testing.T) {
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

func TestEncodeRefusesRecordBeyondBound(t *testing.T) {
	rec := &journaletv1.Record{Seq: 9, Body: &journaletv1.Record_Fact{Fact: &journaletv1.Event{
		Kind: &journaletv1.Event_AgentStopped{
			AgentStopped: &journaletv1.AgentStopped{Reason: strings.Repeat("x", MaxRecordBytes)},
		},
	}}}
	if _, err := Encode(rec); err == nil || !strings.Contains(err.Error(), "record 9") {
		t.Fatalf("error %v", err)
	}
}

func TestAnEventForObserversDrivesNoTerminal(t *testing.T) {
	said := "\x1b[2J\u009b31m\x7f\u202e\u2028 ü"
	rec := &journaletv1.Record{Seq: 1, Actor: Pod("p").Proto(), Body: &journaletv1.Record_Fact{Fact: NewEvent(
		&journaletv1.PodObserved{Uid: "p", Containers: []*journaletv1.ContainerObservation{{Message: said}}})}}
	flats := Flatten("n", rec)
	b, err := json.Marshal(flats)
	if err != nil || len(flats) != 1 {
		t.Fatalf("%d events, %v", len(flats), err)
	}
	if !plain.Shown(string(b), true) {
		t.Errorf("%q", b)
	}
	var back []struct {
		Data struct {
			Containers []struct{ Message string } `json:"containers"`
		} `json:"data"`
	}
	if err := json.Unmarshal(b, &back); err != nil || back[0].Data.Containers[0].Message != said {
		t.Errorf("%v, %+v", err, back)
	}
}
