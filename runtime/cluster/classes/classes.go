package classes

import (
	"context"
	"fmt"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"

	"github.com/journalet/journalet/runtime/cluster/client"
	"github.com/journalet/journalet/runtime/cluster/objectcache"
)

// Classes follows the RuntimeClasses of the cluster. Its methods may be called concurrently.
type Classes struct {
	// handlers are the runtime handlers of classes, by the name of the class.
	handlers *objectcache.List[nodev1.RuntimeClass, string]
}

// New returns Classes that have not been read. kept and log may be nil; away reports whether the API server does not
// answer.
func New(c *client.Client, kept objectcache.Kept, away func() bool, log *slog.Logger) *Classes {
	return &Classes{handlers: objectcache.New(c, client.RuntimeClasses, objectcache.Options[nodev1.RuntimeClass, string]{
		Value: func(v *nodev1.RuntimeClass) (string, bool) { return v.Handler, true },
		Size:  func(handler string) int { return len(handler) },
		Kept:  kept, Away: away, Log: log,
	})}
}

// Run follows the classes until ctx ends.
func (c *Classes) Run(ctx context.Context) error { return c.handlers.Run(ctx) }

// Handler returns the runtime handler of a pod, empty for the runtime's default. An error names the class that is
// missing, in the kubelet's words.
func (c *Classes) Handler(pod *corev1.Pod) (string, error) {
	if pod.Spec.RuntimeClassName == nil || *pod.Spec.RuntimeClassName == "" {
		return "", nil
	}
	name := *pod.Spec.RuntimeClassName
	if err := c.handlers.Wait(context.Background()); err != nil {
		return "", fmt.Errorf("failed to lookup RuntimeClass %s: the classes have not been read yet", name)
	}
	handler, ok := c.handlers.Get("", name)
	if !ok {
		return "", fmt.Errorf("runtimeclass.node.k8s.io %q not found", name)
	}
	return handler, nil
}
