package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	k8sjson "sigs.k8s.io/json"
)

// events decodes the events of a watch. Its lists are its own: a watch that was ended is read on for a moment, beside
// the next one.
type events[T any] struct {
	*lists[T]
	body io.ReadCloser
	from *bufio.Reader
	read func(r *bufio.Reader) (kind, objectKind string, in item, err error)

	// listing: what a watch sends as a list has not ended; late ends a list that takes too long.
	listing bool
	late    *time.Timer
	// relist, which is stopped until a list is due, ends the watch, so that a list follows; expired: it has. A Reader has
	// none.
	relist  *time.Timer
	expired atomic.Bool
	// pending are events that follow from the last one.
	pending []watch.Event
}

// watch watches the objects. listing: the watch begins with a list; late is called if that takes too long.
func (l *lists[T]) watch(ctx context.Context, request *rest.Request, listing bool, late func(),
) (watch.Interface, error) {
	body, as, err := open(unlimited(ctx), request)
	if utilnet.IsProbableEOF(err) || utilnet.IsTimeout(err) {
		return watch.NewEmptyWatch(), nil // as in client-go: the Reflector begins again
	}
	if err != nil {
		return nil, err
	}
	return l.follow(body, as, listing, late), nil
}

// follow reads the body of a watch.
func (l *lists[T]) follow(body io.ReadCloser, as encoding, listing bool, late func()) watch.Interface {
	own := *l
	e := &events[T]{lists: &own, body: body, from: bufio.NewReaderSize(body, maxHeadBytes), read: readJSONEvent}
	if as == asProtobuf {
		e.read = readProtobufEvent
	}
	e.relist = time.AfterFunc(listAgainMost, e.expire)
	e.relist.Stop()
	if listing {
		own.restart()
		e.listing, e.late = true, time.AfterFunc(listTimeout, late)
	} else {
		e.listAgain()
	}
	return watch.NewStreamWatcher(e, apierrors.NewClientErrorReporter(http.StatusInternalServerError, http.MethodGet,
		"ClientWatchDecoding"))
}

// Close ends the watch.
func (e *events[T]) Close() {
	if e.late != nil {
		e.late.Stop()
	}
	e.relist.Stop()
	_ = e.body.Close() // nothing was written
}

// Decode returns the next event that concerns the node.
func (e *events[T]) Decode() (watch.EventType, runtime.Object, error) {
	for {
		if len(e.pending) > 0 {
			next := e.pending[0]
			e.pending = e.pending[1:]
			return next.Type, next.Object, nil
		}
		kind, objectKind, in, err := e.read(e.from)
		if err != nil && e.expired.Load() {
			status := apierrors.NewResourceExpired("an object could not be read: they are listed again").Status()
			return watch.Error, &status, nil
		}
		if err != nil {
			return "", nil, err
		}
		if err := e.event(watch.EventType(kind), objectKind, in); err != nil {
			return "", nil, err
		}
	}
}

func (e *events[T]) add(kind watch.EventType, object *T) {
	e.pending = append(e.pending, watch.Event{Type: kind, Object: e.resource.object(object)})
}

// event appends to pending what an event means.
func (e *events[T]) event(kind watch.EventType, objectKind string, in item) error {
	if kind == watch.Error {
		status := &metav1.Status{}
		if in.size > int64(len(in.data)) || decodeStatus(in, status) != nil {
			return errors.New("the API server's watch ended with an error that cannot be read")
		}
		e.pending = append(e.pending, watch.Event{Type: watch.Error, Object: status})
		return nil
	}
	if objectKind != e.kind {
		return fmt.Errorf("the API server's watch has an event of kind %.*q where %s is due", maxReasonBytes,
			objectKind, e.kind)
	}
	if kind == watch.Bookmark {
		object, ok := bookmark(e.resource, in)
		if !ok {
			return errors.New("the API server's watch has a bookmark that cannot be read")
		}
		if e.listing && e.metaOf(object).GetAnnotations()[metav1.InitialEventsAnnotationKey] != "" {
			e.endList()
		}
		e.add(watch.Bookmark, object)
		return nil
	}
	if e.listing {
		return e.listed(in)
	}
	object, err := e.object(in)
	switch {
	case err == nil:
		e.add(kind, object)
	case e.one:
		return err
	default:
		e.again.note()
		e.listAgain()
		return e.unread(kind, identityOf(in), err)
	}
	return nil
}

// listAgain has the watch end when the objects are to be listed again: a watch that lives on needs no list.
func (e *events[T]) listAgain() {
	if pause, due := e.again.due(); due && e.relist != nil {
		e.relist.Reset(pause)
	}
}

// expire ends the watch with an error that has a Reflector list.
func (e *events[T]) expire() {
	e.expired.Store(true)
	_ = e.body.Close() // nothing was written
}

// listed takes an object of what a watch sends as a list.
func (e *events[T]) listed(in item) error {
	if e.lists.read++; e.lists.read > e.maxRead {
		return e.endless()
	}
	object, err := e.next(in, e.take)
	// Those of the namespace that are in the list already leave it.
	for _, gone := range e.crowd.gone {
		e.add(watch.Deleted, stub(&e.resource, gone, errCrowd))
	}
	if len(e.crowd.gone) > 0 && e.resource.stubs {
		e.add(watch.Added, stub(&e.resource, identity{}, crowded(e.crowd.gone[0].namespace)))
	}
	e.crowd.gone = nil
	if err == nil && object != nil {
		e.add(watch.Added, object)
	}
	return err
}

// endList ends what a watch sends as a list.
func (e *events[T]) endList() {
	e.listing, e.crowd = false, crowd{}
	e.late.Stop()
	e.again.end()
	e.listAgain()
}

// unread takes an event of an object that cannot be read: what was known of it does not count any more. Without its
// name nothing can be said, and what is gone shows in the next list.
func (e *events[T]) unread(kind watch.EventType, i identity, why error) error {
	switch {
	case !i.known() && kind == watch.Deleted:
		return errNoIdentity
	case !i.known():
	case e.resource.stubs:
		e.add(kind, stub(&e.resource, i, why))
	default:
		e.add(watch.Deleted, stub(&e.resource, i, why))
	}
	return nil
}

func decodeStatus(in item, into *metav1.Status) error {
	if in.as == asProtobuf {
		return into.Unmarshal(in.data)
	}
	return k8sjson.UnmarshalCaseSensitivePreserveInts(in.data, into)
}
