package pod

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

// A start that ran no process did not happen. Where the runtime refuses a start and shows that no process of the
// container ran, the start is tried again although the container's policy is Never: with another instance, after the
// wait that every failed start has. A command that cannot be executed is the exception: it ends the container at once,
// as with the kubelet (ADR 083).

// maxStartsNotRun is how many starts in a row may run nothing before the container ends as with the kubelet. With the
// default back-off of 10 s, doubling, the last one is 310 s after the first.
const maxStartsNotRun = 6

// evolveRefused folds what is known of a start that the runtime has refused.
func (a *Actor) evolveRefused(
	r *journaletv1.ContainerRecord, w *journaletv1.StartContainer, f *journaletv1.CallFinished,
) {
	if f.GetError() != journaletv1.CallError_CALL_ERROR_START {
		return // the next instance could not be created: the one before has not run all the same
	}
	r.NotRun = nil
	spec := a.spec(w.GetContainer())
	if f.GetFailedStart() != journaletv1.FailedStart_FAILED_START_NOT_RUN || spec == nil || !a.startsOnce(spec) {
		return
	}
	r.ReportedRestarts = max(r.GetReportedRestarts(), restarts(r)) // what may have been reported never falls
	r.InstancesNotRun++
	if r.StartsNotRun++; r.StartsNotRun < maxStartsNotRun {
		r.NotRun = &journaletv1.CreatedContainer{
			ContainerId: cmp.Or(f.GetContainerId(), w.GetContainerId()), Attempt: w.GetAttempt(), SandboxId: w.GetSandboxId(),
		}
	}
}

// startsOnce reports whether a container's policy restarts none of its instances. Its rules may do so all the same.
func (a *Actor) startsOnce(c *corev1.Container) bool { return a.isEphemeral(c.Name) || a.never(c) }

// notRun reports whether the newest start of a container ran nothing and is tried again. The instance may not have been
// observed yet: the newest one is an earlier one then, which the start was to replace.
func notRun(r *journaletv1.ContainerRecord) bool {
	return r.GetNotRun() != nil && r.GetCurrent().GetAttempt() <= r.GetNotRun().GetAttempt()
}
