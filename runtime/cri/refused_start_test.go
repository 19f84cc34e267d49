package cri

import (
	"errors"
	"testing"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/calls"
)

// A container has certainly not run only if the runtime still shows it, and nothing that it shows speaks of a process.
func TestOnlyACertainRefusalCountsAsNotRun(t *testing.T) {
	const created, exited = runtimeapi.ContainerState_CONTAINER_CREATED, runtimeapi.ContainerState_CONTAINER_EXITED
	for name, c := range map[string]struct {
		status *runtimeapi.ContainerStatus
		not    bool
	}{
		"created":          {&runtimeapi.ContainerStatus{Id: "c", State: created}, true},
		"refused":          {&runtimeapi.ContainerStatus{Id: "c", State: exited, Reason: startErrorReason}, true},
		"gone":             {nil, false},
		"runs":             {&runtimeapi.ContainerStatus{Id: "c", State: runtimeapi.ContainerState_CONTAINER_RUNNING}, false},
		"ended":            {&runtimeapi.ContainerStatus{Id: "c", State: exited, Reason: "Error"}, false},
		"has a start time": {&runtimeapi.ContainerStatus{Id: "c", State: created, StartedAt: 1}, false},
		"its process was asked for": {
			&runtimeapi.ContainerStatus{Id: "c", State: exited, Reason: startErrorReason, Message: startedTaskText}, false,
		},
	} {
		f := new(calls.Failure)
		if !errors.As(failedStart(c.status, "no space left on device"), &f) {
			t.Fatalf("%s: no failure", name)
		}
		if got := f.FailedStart == journaletv1.FailedStart_FAILED_START_NOT_RUN; got != c.not {
			t.Errorf("%s: it has certainly not run: %t", name, got)
		}
	}
}
