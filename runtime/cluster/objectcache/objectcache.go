package objectcache

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
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
)

// ErrNotRead means that there has been no list yet, and that none was kept.
var ErrNotRead = errors.New("not read at least once yet")

// Kept keeps a list for a start without the API server (runtime/objects/offlinecopy).
type Kept interface {
	SaveList(name string, data []byte)
	LoadList(name string) ([]byte, bool)
}

// Options configure a List. Kept and Log may be nil.
type Options[T, V any] struct {
	// Value returns the value of an object; false: the object has none. Size returns the bytes of its texts and lists.
	Value func(*T) (V, bool)
	Size  func(V) int
	Kept  Kept
	// Changed is called after a value has come, changed or gone, or may have. It must not block, nor call the List. May be
	// nil.
	Changed func()
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
	// cut is the namespace that was last not kept.
	cut string
	now *values[V]
	// next has the objects of the list that is being read.
	next *values[V]
}

// New returns a List that has not been read. *T is the type of the resource.
func New[T, V any](c *client.Client, r client.Resource[T], o Options[T, V]) *List[T, V] {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	l := &List[T, V]{
		opts: o, client: c, name: r.Name, first: make(chan struct{}), now: newValues(o.Size), next: newValues(o.Size),
	}
	l.lister = client.ListWatchInto(c, r, fields.Everything(), l.begin)
	return l
}

// Run follows the objects until ctx ends. Then it keeps the list if it has changed since it was kept: Run's caller may
// go on to flush what is kept.
func (l *List[T, V]) Run(ctx context.Context) error {
	l.client.Follow(ctx, l.lister, new(T), (*store[T, V])(l), client.Following{
		Reflector: cache.ReflectorOptions{Name: l.name},
	})
	l.save()
	return ctx.Err()
}

// Get returns the value of an object.
func (l *List[T, V]) Get(namespace, name string) (V, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now.get(namespace, name)
}

// In returns the values of a namespace by name; ok is false if there are more than most.
func (l *List[T, V]) In(namespace string, most int) (all map[string]V, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	in := l.now.all[namespace]
	if in == nil {
		return nil, true
	}
	if len(in.values) > most {
		return nil, false
	}
	return maps.Clone(in.values), true
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
		l.now = newValues(l.opts.Size)
		l.now.take(all)
	}
	return true
}

// changed reports a change, and keeps the list soon; l.mu is held.
func (l *List[T, V]) changed() {
	if l.opts.Changed != nil {
		l.opts.Changed()
	}
	if l.opts.Kept == nil || l.saving {
		return
	}
	l.saving = true
	time.AfterFunc(saveAfter, l.save)
}

// save keeps the list if it is about to be kept.
func (l *List[T, V]) save() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.saving {
		return
	}
	l.saving = false
	if data := l.fitting(); data != nil {
		l.opts.Kept.SaveList(l.name, data)
	}
}

// fitting returns the encoded list, without the largest namespaces if it would be too large; l.mu is held.
func (l *List[T, V]) fitting() []byte {
	data, cut, err := l.now.encode()
	if err != nil {
		return nil
	}
	if cut != "" && cut != l.cut {
		l.opts.Log.Warn("a list is too large to be kept; it is kept without its largest namespaces", "resource", l.name,
			"namespace", cut, "bytes", maxListBytes)
	}
	l.cut = cut
	return data
}

// begin begins a list. It forgets what was taken of an earlier list that did not end.
func (l *List[T, V]) begin() (take func(*T)) {
	next := newValues(l.opts.Size)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next = next
	return func(o *T) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.set(next, o)
	}
}

// set takes an object into values, and reports whether it changed them; l.mu is held.
func (l *List[T, V]) set(into *values[V], o *T) bool {
	is, ok := any(o).(metav1.Object)
	if !ok {
		return false // no object of the API
	}
	namespace, name := is.GetNamespace(), is.GetName()
	before, had := into.get(namespace, name)
	value, has := l.opts.Value(o)
	switch {
	case !has:
		into.remove(namespace, name)
		return had
	case had && reflect.DeepEqual(before, value):
		return false // another label, or another version
	}
	if outNamespace, outName := into.set(namespace, name, value); outNamespace != "" || outName != "" {
		l.client.LeaveOut(client.LeftOut{
			Resource: l.name, Namespace: outNamespace, Name: outName,
			Reason: fmt.Sprintf("what this node needs of all of them has more than %d bytes, and this has most", maxBytes),
		})
	}
	return true
}

// store is a List as the store of its Reflector.
type store[T, V any] List[T, V]

func (s *store[T, V]) list() *List[T, V] { return (*List[T, V])(s) }

// Add takes an object.
func (s *store[T, V]) Add(o any) error {
	object, ok := o.(*T)
	if !ok {
		return fmt.Errorf("the API server sent a %T", o)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.list(); l.set(l.now, object) {
		l.changed()
	}
	return nil
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
	s.now.remove(is.GetNamespace(), is.GetName())
	s.list().changed()
	return nil
}

// Replace takes that the list has been read whole.
func (s *store[T, V]) Replace([]any, string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.list()
	l.now, l.next = l.next, newValues(l.opts.Size)
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
