package pleg

import (
	"testing"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

func TestUserThatTheRuntimeForgetsStays(t *testing.T) {
	before := &journaletv1.ContainerObservation{User: &journaletv1.ContainerUser{Uid: 5, SupplementalGroups: []int64{6}}}
	for name, st := range map[string]*runtimeapi.ContainerStatus{
		"no user":            {},
		"no user of Linux's": {User: &runtimeapi.ContainerUser{}},
	} {
		if got := userOf(st, before); !proto.Equal(got, before.GetUser()) {
			t.Errorf("%s: %v", name, got)
		}
		if got := userOf(st, nil); got != nil {
			t.Errorf("%s, and none before: %v", name, got)
		}
	}
	root := &runtimeapi.ContainerStatus{User: &runtimeapi.ContainerUser{Linux: &runtimeapi.LinuxContainerUser{}}}
	if got := userOf(root, before); got == nil || got.GetUid() != 0 || len(got.GetSupplementalGroups()) != 0 {
		t.Errorf("root: %v", got)
	}
}
