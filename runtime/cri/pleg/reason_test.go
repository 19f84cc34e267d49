package pleg

import (
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// A runtime remembers that one process of a container was killed for lack of memory until the container ends.
func TestReasonIsOfThisEndNotOfAKillBefore(t *testing.T) {
	for _, c := range []struct {
		code           int32
		reported, want string
	}{
		{0, "OOMKilled", "Completed"}, {143, "OOMKilled", "Error"}, {130, "OOMKilled", "Error"},
		{137, "OOMKilled", "OOMKilled"},
		// The process may have ended because its child was killed.
		{1, "OOMKilled", "OOMKilled"}, {255, "OOMKilled", "OOMKilled"},
		{0, "Completed", "Completed"}, {143, "Error", "Error"}, {128, "StartError", "StartError"}, {0, "", ""},
	} {
		if got := reasonOf(&runtimeapi.ContainerStatus{ExitCode: c.code, Reason: c.reported}); got != c.want {
			t.Errorf("%d with %s is %s, want %s", c.code, c.reported, got, c.want)
		}
	}
}
