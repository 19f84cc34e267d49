package classes

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/cluster/client"
)

const (
	// firstWait bounds how long the start of a sandbox waits for the first list: longer than it takes to find out that
	// the API server does not answer (package client), so that the first try takes the list that was kept.
	firstWait = 4 * time.Second
	// checkAway is how often that is checked.
	checkAway = 100 * time.Millisecond
	// maxListBytes bounds the list that is kept.
	maxListBytes = 1 << 20
	listName     = "runtimeclasses"
)

// Kept keeps a list for a start without the API server (runtime/objects/kept).
type Kept interface {
	SaveList(name string, data []byte)
	LoadList(name string) ([]byte, bool)
}

// Classes follows the RuntimeClasses of the cluster. Its methods may be called concurrently.
type Classes struct {
	lister *cache.ListWatch
	kept   Kept
	away   func() bool
	first  chan struct{} // closed with the first list

	mu sync.Mutex
	// handlers are the runtime handlers of classes, by the name of the class.
	handlers map[string]string
}

// New returns Classes that have not been read. kept may be nil; away reports whether the API server does not answer.
func New(c *client.Client, kept Kept, away func() bool) (*Classes, error) {
	lister, err := client.ListWatch(c, client.RuntimeClasses, "", "")
	if err != nil {
		return nil, err
	}
	return &Classes{
		lister: lister, kept: kept, away: away, first: make(chan struct{}), handlers: map[string]string{},
	}, nil
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
	if !c.read() {
		return "", fmt.Errorf("failed to lookup RuntimeClass %s: the classes have not been read yet", name)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	handler, ok := c.handlers[name]
	if !ok {
		return "", fmt.Errorf("runtimeclass.node.k8s.io %q not found", name)
	}
	return handler, nil
}

// read waits for the first list, and reports whether there is one.
func (c *Classes) read() bool {
	end, check := time.NewTimer(firstWait), time.NewTicker(checkAway)
	defer end.Stop()
	defer check.Stop()
	for {
		select {
		case <-c.first:
			return true
		case <-end.C:
			return false
		case <-check.C:
			if c.load() {
				return true
			}
		}
	}
}

// load takes the list that was kept, if the API server does not answer.
func (c *Classes) load() bool {
	if c.kept == nil || !c.away() {
		return false
	}
	data, ok := c.kept.LoadList(listName)
	handlers := map[string]string{}
	if !ok || bounded.JSON(data, maxListBytes, &handlers) != nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-c.first: // a list came meanwhile
	default:
		c.handlers = handlers
	}
	return true
}

// changed keeps the list; c.mu is held.
func (c *store) changed() {
	if c.kept == nil {
		return
	}
	if data, err := json.Marshal(c.handlers); err == nil && len(data) <= maxListBytes {
		c.kept.SaveList(listName, data)
	}
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
	c.changed()
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
	c.changed()
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
	c.changed()
	select {
	case <-c.first:
	default:
		close(c.first)
	}
	return nil
}

// Resync does nothing.
func (c *store) Resync() error { return nil }
