package query

import (
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/why"
	"github.com/journalet/journalet/test/must"
)

// explaining returns a server that explains a journal of a read manifest and a pod that it added.
func explaining(open error) *server {
	m := &history.Memory{Name: "node-1"}
	put := func(rec *journaletv1.Record) {
		rec.Seq, rec.Epoch, rec.Time = uint64(len(m.Records))+1, 1, timestamppb.New(at(len(m.Records)))
		m.Records = append(m.Records, rec)
	}
	source := messages.Source(messages.FileSource).Proto()
	read := messages.NewEvent(&journaletv1.ManifestsRead{
		Source: messages.FileSource, Changed: []*journaletv1.ManifestFile{{
			Path: "web.yaml", Pods: []*journaletv1.PodRef{podRef("u1", "default", "web")},
		}},
	})
	put(&journaletv1.Record{Actor: source, Body: &journaletv1.Record_Fact{Fact: read}})
	put(&journaletv1.Record{Actor: source, Body: &journaletv1.Record_Step{Step: &journaletv1.Step{
		Cause: 1, Decisions: []*journaletv1.Event{added("u1", "default", "web")},
	}}})
	return &server{Options: Options{Node: "node-1", History: func(context.Context) (history.Reader, error) {
		return m, open
	}}}
}

func TestWhyLeadsToTheManifest(t *testing.T) {
	a, err := explaining(nil).why(t.Context(), why.Query{Seq: 2})
	must.OK(t, err)
	if len(a.Chains) != 1 || a.Chains[0].End.Kind != why.Manifest || a.Chains[0].Causes[0].Seq != 1 {
		t.Fatalf("%+v", a)
	}
	a, err = explaining(nil).why(t.Context(), why.Query{Pod: "web"})
	must.OK(t, err)
	if a.Pod.UID != "u1" || a.State != "Pending" {
		t.Fatalf("%+v", a)
	}
}

func TestWhyHasErrorsOfQueries(t *testing.T) {
	broken := errors.New("disk on fire")
	for _, c := range []struct {
		q    why.Query
		open error
		code int
		want string
	}{
		{why.Query{}, nil, CodeBadRequest, "neither a pod nor a record"},
		{why.Query{Seq: 3}, nil, CodeNotFound, "the journal holds 1 to 2"},
		{why.Query{Pod: "db"}, nil, CodeNotFound, `pod "db" is not in the journal`},
		{why.Query{Pod: "web", Container: "main"}, nil, CodeNotFound, `no container "main"`},
		{why.Query{Seq: 2}, broken, 0, "disk on fire"},
	} {
		_, err := explaining(c.open).why(t.Context(), c.q)
		var response *Error
		code := 0
		if errors.As(err, &response) {
			code = response.Code
		}
		if err == nil || code != c.code || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %d %v, want %d with %q", c.q, code, err, c.code, c.want)
		}
	}
	s := explaining(nil)
	s.History = nil
	var response *Error
	if _, err := s.why(t.Context(), why.Query{Seq: 1}); !errors.As(err, &response) || response.Code != CodeUnavailable {
		t.Errorf("without a history: %v", err)
	}
}
