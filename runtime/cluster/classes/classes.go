package classes

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/journalet/journalet/runtime/cluster/client"
)

// firstWait bounds how long the start of a sandbox waits for the first list.
const firstWait = time.Second

// Classes follows the RuntimeClasses of the cluster. Its methods may be called concurrently.
type Classes struct {
	lister *cache.ListWatch
	first  chan struct{} // closed with the first list

	mu sync.Mutex
	// handlers are the runtime handlers of classes, by the name of the class.
	handlers map[string]string
}

// New returns Classes that have not been read.
func New(c *client.Client) (*Classes, error) {
	lister, err := client.ListWatch(c, client.RuntimeClasses, "", "")
	if err != nil {
		return nil, err
	}
	return &Classes{lister: lister, first: make(chan struct{}), handlers: map[string]string{}}, nil
}

// Run follows the classes until ctx ends.
func (c *Classes) Run(ctx context.Context) error {
	cache.NewReflectorWithOptions(c.lister, &nodev1.RuntimeClass{}, (*store)(c),
		cache.ReflectorOptions{Name: "runtime classes"}).RunWithContext(ctx)
	return ctx.Err()
}

// Handler returns the runtime handler of a pod, empty for the runtime's default. An error names the class that is
// missing, in the kubelet's words.
func (c *Classes) Handler(pod *corev1.Pod) (string, error) {
	if pod.Spec.RuntimeClassName == nil || *pod.Spec.RuntimeClassName == "" {
		return "", nil
	}
	name := *pod.Spec.RuntimeClassName
	t := time.NewTimer(firstWait)
	defer t.Stop()
	select {
	case <-c.first:
	case <-t.C:
		return "", fmt.Errorf("failed to lookup RuntimeClass %s: the API server has not been read yet", name)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	handler, ok := c.handlers[name]
	if !ok {
		return "", fmt.Errorf("runtimeclass.node.k8s.io %q not found", name)
	}
	return handler, nil
}

// store is the classes as the store of their Reflector.
type store Classes

// Add takes a class.
func (c *store) Add(o any) error {
	v, ok := o.(*nodev1.RuntimeClass)
	if !ok {
		return fmt.Errorf("the API server sent a %T", o)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handlers[v.Name] = v.Handler
	return nil
}

// Update takes a newer class.
func (c *store) Update(o any) error { return c.Add(o) }

// Delete takes that a class is gone.
func (c *store) Delete(o any) error {
	v, ok := o.(*nodev1.RuntimeClass)
	if !ok {
		return fmt.Errorf("the API server sent a %T", o)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.handlers, v.Name)
	return nil
}

// Replace takes a list.
func (c *store) Replace(list []any, _ string) error {
	handlers := map[string]string{}
	for _, o := range list {
		if v, ok := o.(*nodev1.RuntimeClass); ok {
			handlers[v.Name] = v.Handler
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handlers = handlers
	select {
	case <-c.first:
	default:
		close(c.first)
	}
	return nil
}

// Resync does nothing.
func (c *store) Resync() error { return nil }
