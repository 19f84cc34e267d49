package pod

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages/journaletv1"
)

// postStarted tells whether a container's newest instance has no postStart hook to wait for.
func postStarted(c *corev1.Container, r *journaletv1.ContainerRecord) bool {
	return c.Lifecycle == nil || c.Lifecycle.PostStart == nil || r.GetPostStartedId() == r.GetCurrent().GetId()
}

// postStart has the postStart hook of a container run that has begun to run.
func (d *step) postStart(*corev1.Container) error { return nil }

// evolveHook folds the outcome of a hook.
func (a *Actor) evolveHook(*journaletv1.RunHook, *journaletv1.CallFinished) {}
