package cri_test

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/sim"
)

// The runtime has the pod CIDR, also if a response was lost or the call is in doubt; what it refuses is reported, and a
// runtime without the call needs none.
func TestRuntimeIsGivenThePodCIDR(t *testing.T) {
	r := newRig(t, nil)
	give := func(cidr string) *journaletv1.CallRequested {
		return messages.NewCall(&journaletv1.UpdateRuntimeConfig{PodCidr: cidr})
	}
	gone := status.Error(codes.Unavailable, "gone")
	r.runtime.Inject(sim.Fault{Method: "UpdateRuntimeConfig", Times: 1, Err: gone})
	const both = "10.1.0.0/24,fd00:1::/64"
	r.done("give", give(both), false)
	r.done("give again", give(both), true)
	if got := r.runtime.PodCIDR(); got != both {
		t.Errorf("the runtime has %q", got)
	}
	out := r.perform("garbage", give("10.1.0.0"), false)
	if out.GetError() != journaletv1.CallError_CALL_ERROR_RUNTIME || !strings.Contains(out.GetMessage(), "get routes") ||
		r.runtime.PodCIDR() != both {
		t.Errorf("%v, the runtime has %q", out, r.runtime.PodCIDR())
	}
	r.runtime.Inject(sim.Fault{Method: "UpdateRuntimeConfig", Err: status.Error(codes.Unimplemented, "no such method")})
	r.done("without it", give("10.2.0.0/24"), false)
}
