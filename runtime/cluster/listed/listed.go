package listed

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/cluster/client"
)

const (
	// firstWait bounds how long the start of a container waits for the first list: longer than it takes to find out that
	// the API server does not answer (package client), so that the first try takes the list that was kept.
	firstWait = 4 * time.Second
	// checkAway is how often that is checked.
	checkAway = 100 * time.Millisecond
	// saveAfter is how long after a change the list is kept, which takes in the changes until then.
	saveAfter = 2 * time.Second
	// maxListBytes bounds the list that is kept, some 20,000 Services, and maxValues the values, more than a cluster of
	// the largest size has. Beyond them the largest namespace is left out: no namespace takes the room of another.
	maxListBytes = 4 << 20
	maxValues    = 65536
)

// ErrNotRead means that there has been no list yet, and that none was kept.
var ErrNotRead = errors.New("not read at least once yet")

// Kept keeps a list for a start without the API server (runtime/objects/kept).
type Kept interface {
	SaveList(name string, data []byte)
	LoadList(name string) ([]byte, bool)
}

// Options configure a List. Kept and Log may be nil.
type Options[T, V any] struct {
	// Value returns the value of an object; false: the object has none. It keeps nothing of the object.
	Value func(*T) (V, bool)
	Kept  Kept
	// Away reports whether the API server does not answer.
	Away func() bool
	Log  *slog.Logger
}

// List has the values V of all objects *T. V is encoded as JSON. Its methods may be called concurrently.
type List[T, V any] struct {
	opts   Options[T, V]
	client *client.Client
	lister *cache.ListWatch
	name   string
	first  chan struct{} // closed with the first list

	mu sync.Mutex
	// saving: the list is about to be kept.
	saving bool
	// out are the namespaces whose objects are left out until the next list; cut, the one that was last not kept.
	out map[string]bool
	cut string
	// all are the values by namespace, empty for a resource without, and name; count is how many they are.
	all   map[string]map[string]V
	count int
}

// New returns a List that has not been read. *T is the type of the resource.
func New[T, V any](c *client.Client, r client.Resource[T], o Options[T, V]) (*List[T, V], error) {
	lister, err := client.ListWatch(c, r, metav1.NamespaceAll, "")
	if err != nil {
		return nil, err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &List[T, V]{
		opts: o, client: c, lister: lister, name: r.Name, first: make(chan struct{}), all: map[string]map[string]V{},
	}, nil
}

// Run follows the objects until ctx ends.
func (l *List[T, V]) Run(ctx context.Context) error {
	l.client.Follow(ctx, l.lister, new(T), (*store[T, V])(l), client.Following{
		Reflector: cache.ReflectorOptions{Name: l.name},
	})
	return ctx.Err()
}

// Get returns the value of an object.
func (l *List[T, V]) Get(namespace, name string) (V, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v, ok := l.all[namespace][name]
	return v, ok
}

// In returns the values of a namespace by name.
func (l *List[T, V]) In(namespace string) map[string]V {
	l.mu.Lock()
	defer l.mu.Unlock()
	return maps.Clone(l.all[namespace])
}

// Wait waits for the first list, at most 4 s, and fails with ErrNotRead. Without an answer of the API server it takes
// the list that was kept.
func (l *List[T, V]) Wait(ctx context.Context) error {
	end, check := time.NewTimer(firstWait), time.NewTicker(checkAway)
	defer end.Stop()
	defer check.Stop()
	for {
		select {
		case <-l.first:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-end.C:
			return ErrNotRead
		case <-check.C:
			if l.load() {
				return nil
			}
		}
	}
}

// load takes the list that was kept, if the API server does not answer.
func (l *List[T, V]) load() bool {
	if l.opts.Kept == nil || !l.opts.Away() {
		return false
	}
	data, ok := l.opts.Kept.LoadList(l.name)
	all := map[string]map[string]V{}
	if !ok || bounded.JSON(data, maxListBytes, &all) != nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.first: // a list came meanwhile
	default:
		l.all, l.count = all, 0
		for _, of := range all {
			l.count += len(of)
		}
	}
	return true
}

// changed keeps the list soon; l.mu is held.
func (l *List[T, V]) changed() {
	if l.opts.Kept == nil || l.saving {
		return
	}
	l.saving = true
	time.AfterFunc(saveAfter, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.saving = false
		if data := l.fitting(); data != nil {
			l.opts.Kept.SaveList(l.name, data)
		}
	})
}

// fitting returns the encoded list, without the largest namespaces if it would be too large; l.mu is held.
func (l *List[T, V]) fitting() []byte {
	parts, size := map[string]json.RawMessage{}, 2
	for namespace, of := range l.all {
		data, err := json.Marshal(of)
		if err != nil {
			return nil
		}
		parts[namespace] = data
		size += len(data) + len(namespace) + len(`"":,`)
	}
	for size > maxListBytes {
		largest := client.Largest(parts, "", func(data json.RawMessage) int { return len(data) })
		if largest != l.cut {
			l.cut = largest
			l.opts.Log.Warn("a list is too large to be kept; it is kept without its largest namespace", "resource", l.name,
				"namespace", largest, "bytes", maxListBytes)
		}
		size -= len(parts[largest]) + len(largest) + len(`"":,`)
		delete(parts, largest)
	}
	data, err := json.Marshal(parts)
	if err != nil {
		return nil
	}
	return data
}

// set takes an object; l.mu is held.
func (l *List[T, V]) set(o any) error {
	v, ok := o.(*T)
	if !ok {
		return fmt.Errorf("the API server sent a %T", o)
	}
	is := o.(metav1.Object)
	namespace, name := is.GetNamespace(), is.GetName()
	value, ok := l.opts.Value(v)
	if !ok {
		l.remove(namespace, name)
		return nil
	}
	if l.out[namespace] {
		return nil
	}
	if _, has := l.all[namespace][name]; !has {
		if l.count >= maxValues && !l.makeRoom(namespace) {
			return nil
		}
		l.count++
	}
	if l.all[namespace] == nil {
		l.all[namespace] = map[string]V{}
	}
	l.all[namespace][name] = value
	return nil
}

// makeRoom leaves out the largest namespace, and reports whether that is another than the given one; l.mu is held.
func (l *List[T, V]) makeRoom(namespace string) bool {
	largest := client.Largest(l.all, namespace, func(of map[string]V) int { return len(of) })
	if l.opts.Log.Warn("the API server has more objects than are followed; those of the largest namespace are unknown to "+
		"containers", "resource", l.name, "namespace", largest, "followed", maxValues); largest == "" {
		return false // a resource without namespaces
	}
	if l.out == nil {
		l.out = map[string]bool{}
	}
	l.out[largest] = true
	l.count -= len(l.all[largest])
	delete(l.all, largest)
	return largest != namespace
}

// remove forgets an object; l.mu is held.
func (l *List[T, V]) remove(namespace, name string) {
	if _, has := l.all[namespace][name]; !has {
		return
	}
	l.count--
	if delete(l.all[namespace], name); len(l.all[namespace]) == 0 {
		delete(l.all, namespace)
	}
}

// store is a List as the store of its Reflector.
type store[T, V any] List[T, V]

func (s *store[T, V]) list() *List[T, V] { return (*List[T, V])(s) }

// Add takes an object.
func (s *store[T, V]) Add(o any) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.list().changed()
	return s.list().set(o)
}

// Update takes a newer object.
func (s *store[T, V]) Update(o any) error { return s.Add(o) }

// Delete takes that an object is gone.
func (s *store[T, V]) Delete(o any) error {
	is, ok := o.(metav1.Object)
	if !ok {
		return fmt.Errorf("the API server sent a %T", o)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list().remove(is.GetNamespace(), is.GetName())
	s.list().changed()
	return nil
}

// Replace takes a list.
func (s *store[T, V]) Replace(all []any, _ string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.list()
	l.all, l.count, l.out = map[string]map[string]V{}, 0, nil
	for _, o := range all {
		if err := l.set(o); err != nil {
			return err
		}
	}
	l.changed()
	select {
	case <-l.first:
	default:
		close(l.first)
	}
	return nil
}

// Resync does nothing.
func (s *store[T, V]) Resync() error { return nil }
