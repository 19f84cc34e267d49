package dra_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/clean"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/calls"
	"github.com/journalet/journalet/runtime/dra"
)

const uid = "uid-1"

// claims stand for what has DRA drivers prepare claims.
type claims struct {
	message string
	err     error
}

func (c claims) Read(_ context.Context, pod *corev1.Pod, _ string) ([]*journaletv1.ResourceClaim, error) {
	return []*journaletv1.ResourceClaim{{Uid: "read for " + string(pod.UID)}}, c.err
}

func (c claims) Prepare(
	_ context.Context, pod string, all []*journaletv1.ResourceClaim,
) ([]*journaletv1.ClaimOutcome, error) {
	return []*journaletv1.ClaimOutcome{
		{Uid: "prepared"}, {Uid: all[0].GetUid() + " for " + pod, Message: c.message},
	}, c.err
}

func (c claims) Unprepare(
	context.Context, string, []*journaletv1.ResourceClaim,
) ([]*journaletv1.ClaimOutcome, error) {
	return []*journaletv1.ClaimOutcome{{Uid: "unprepared", Message: c.message}}, c.err
}

func TestCallsForClaimsHaveTheirOutcome(t *testing.T) {
	all := []*journaletv1.ResourceClaim{{Uid: "c"}}
	var with claims
	works := calls.NewWorks(calls.WorksOptions{
		Manifest: func(context.Context, string) (*corev1.Pod, error) {
			return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}}, nil
		},
		Redact: func(_, text string) string { return strings.ReplaceAll(text, "secret", "***") },
	}, dra.Worker{Claims: &with})
	perform := func(req *journaletv1.CallRequested) *journaletv1.CallFinished {
		req.PodUid = uid
		return works.Perform(t.Context(), "i", "pod/"+uid, req, false)
	}
	read := perform(messages.NewCall(&journaletv1.ReadClaims{Digest: "sha256:1"}))
	if read.GetError() != journaletv1.CallError_CALL_ERROR_UNSPECIFIED || len(read.GetClaims()) != 1 ||
		read.GetClaims()[0].GetUid() != "read for uid-1" {
		t.Errorf("read: %v", read)
	}
	prepared := perform(messages.NewCall(&journaletv1.PrepareClaims{Claims: all}))
	if prepared.GetError() != journaletv1.CallError_CALL_ERROR_UNSPECIFIED || len(prepared.GetClaimOutcomes()) != 2 ||
		prepared.GetClaimOutcomes()[1].GetUid() != "c for uid-1" {
		t.Errorf("prepared: %v", prepared)
	}
	with.message = "no secret " + strings.Repeat("x", 2<<10)
	for _, req := range []*journaletv1.CallRequested{
		messages.NewCall(&journaletv1.PrepareClaims{Claims: all}),
		messages.NewCall(&journaletv1.UnprepareClaims{Claims: all}),
	} {
		out := clean.Fact(messages.NewEvent(perform(req))).GetCallFinished()
		last := out.GetClaimOutcomes()[len(out.GetClaimOutcomes())-1].GetMessage()
		if out.GetError() != journaletv1.CallError_CALL_ERROR_CLAIM || !out.GetRetryable() ||
			!strings.HasPrefix(out.GetMessage(), "no *** x") || !strings.HasPrefix(last, "no *** x") || len(last) > 1<<10 {
			t.Errorf("failed: %v", out)
		}
	}
	with = claims{err: errors.New("not found")}
	if out := perform(messages.NewCall(&journaletv1.ReadClaims{Digest: "sha256:1"})); out.GetMessage() != "not found" ||
		!out.GetRetryable() {
		t.Errorf("failed: %v", out)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	for _, req := range []*journaletv1.CallRequested{
		messages.NewCall(&journaletv1.ReadClaims{Digest: "sha256:1"}),
		messages.NewCall(&journaletv1.PrepareClaims{Claims: all}),
		messages.NewCall(&journaletv1.UnprepareClaims{Claims: all}),
	} {
		req.PodUid = uid
		if out := works.Perform(ended, "i", "pod/"+uid, req, false); out != nil {
			t.Errorf("a call that was cut short has the outcome %v", out)
		}
	}
}
