package client

import (
	"bufio"
	"io"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// Reader reads lists and events of watches in protobuf as ListWatch does, but from the caller's bytes: a simulation has
// no connection.
type Reader[T any] struct{ lists *lists[T] }

// NewReader returns a reader of a resource whose lists keep at most so many objects; 0: as many as the lists of
// ListWatch. It uses now to compute when to list again.
func NewReader[T any](r Resource[T], most int, now func() time.Time) *Reader[T] {
	l := newLists(func(LeftOut) {}, r, false)
	l.again.now = now
	if most > 0 {
		l.maxItems = most
	}
	return &Reader[T]{l}
}

// List reads a list that has one page.
func (r *Reader[T]) List(body io.Reader) (runtime.Object, error) {
	r.lists.restart()
	return r.lists.decode(body, asProtobuf)
}

// ListAgain returns after which time a watch has to end, so that a list follows, since something could not be read;
// false: it need not.
func (r *Reader[T]) ListAgain() (time.Duration, bool) { return r.lists.again.due() }

// Event reads an event of a watch that follows a list, and returns what it means to who follows it: nothing, if it is
// one of an object that cannot be read, nor its name.
func (r *Reader[T]) Event(body io.Reader) ([]watch.Event, error) {
	e := &events[T]{lists: r.lists}
	kind, objectKind, in, err := readProtobufEvent(bufio.NewReaderSize(body, maxHeadBytes))
	if err == nil {
		err = e.event(watch.EventType(kind), objectKind, in)
	}
	return e.pending, err
}
