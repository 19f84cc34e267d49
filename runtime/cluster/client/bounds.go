package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// What an API server can send. It may run what it likes on the node, so that these bounds are against its faults, and
// against those of what stands between.
const (
	// maxObjectBytes bounds the answer to a request for an object, which has at most 1.5 MiB (etcd's bound of a
	// request), a list of one object, or of a resource with few, and an event of a watch. Client-go bounds the events of
	// a watch in protobuf, not those in JSON.
	maxObjectBytes = 16 << 20
	// maxListBytes and maxListItems bound a list with all its pages, and what a watch sends as one. A node of 1000 pods
	// has 10 MiB, one with 12,500 that have failed 50, and a cluster of 20,000 Services 20.
	maxListBytes = 64 << 20
	maxListItems = 100_000
	// maxListPages bounds a list whose pages are empty.
	maxListPages = 10_000
	// listTimeout bounds a page, and what a watch sends as a list; the API server ends a request after a minute.
	listTimeout = 2 * time.Minute
	// watchGrace is how much longer a watch may last than the API server was requested to let it.
	watchGrace = time.Minute
	// maxReasonBytes bounds what is repeated of an answer that is none of the API.
	maxReasonBytes = 64
)

// errRedirect means that something stands before the API server that does not pass its requests on.
var errRedirect = errors.New("the server redirects to another address, which is not followed with this node's " +
	"credentials; set clusters[].cluster.server of the kubeconfig to the API server itself")

func refuseRedirect(*http.Request, []*http.Request) error { return errRedirect }

// budget is how many bytes the answers to some requests may have together, or one event of a watch.
type budget struct {
	of   string
	left atomic.Int64
	all  int64
}

type budgetKey struct{}

func newBudget(of string, bytes int64) *budget {
	b := &budget{of: of, all: bytes}
	b.left.Store(bytes)
	return b
}

// budgetOf returns the budget of a request: that of its context, or an object's.
func budgetOf(ctx context.Context) *budget {
	if b, ok := ctx.Value(budgetKey{}).(*budget); ok {
		return b
	}
	return newBudget("answer", maxObjectBytes)
}

// take reports whether there is room for n more bytes.
func (b *budget) take(n int) error {
	if b.left.Add(-int64(n)) < 0 {
		return fmt.Errorf("the API server's %s has more than %d bytes", b.of, b.all)
	}
	return nil
}

// refill has the budget begin again.
func (b *budget) refill() { b.left.Store(b.all) }

// limited is a body with a bound.
type limited struct {
	io.ReadCloser
	budget *budget
}

// Read reads until the bound.
func (l *limited) Read(p []byte) (int, error) {
	n, err := l.ReadCloser.Read(p)
	if over := l.budget.take(n); over != nil {
		return 0, over
	}
	return n, err
}

// decode returns the object of an answer, which must be a *T.
func decode[T any](answer rest.Result) (*T, error) {
	object, err := answer.Get()
	if err != nil {
		return nil, err
	}
	out, ok := any(object).(*T)
	if !ok {
		return nil, wrongKind(new(T), object)
	}
	return out, nil
}

func wrongKind(due any, got runtime.Object) error {
	if s, ok := got.(*metav1.Status); ok {
		return fmt.Errorf("the API server answered with a Status (%.*s) where a %T is due", maxReasonBytes, s.Reason, due)
	}
	return fmt.Errorf("the API server answered with a %T where a %T is due", got, due)
}

// lists bounds the lists and watches of one Reflector, which sends one request after the other.
type lists[T any] struct {
	resource Resource[T]
	one      bool    // of the one object that a field selector names
	budget   *budget // of the list under way
	items    int
	pages    int
}

// newBudget returns the budget of a list. Decoding takes three times the bytes, and a server at fault gives every list
// of the node as many as it may have at once.
func (l *lists[T]) newBudget() *budget {
	most := int64(maxListBytes)
	if l.one || l.resource.Few {
		most = maxObjectBytes
	}
	return newBudget("list of "+l.resource.Name, most)
}

// page adds a page to the list that continue, if it is set, continues.
func (l *lists[T]) page(ctx context.Context, request *rest.Request, more string) (runtime.Object, error) {
	if more == "" || l.budget == nil {
		l.budget, l.items, l.pages = l.newBudget(), 0, 0
	}
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, budgetKey{}, l.budget), listTimeout)
	defer cancel()
	object, err := request.Do(ctx).Get()
	if err != nil {
		return nil, err
	}
	due := l.resource.list()
	if reflect.TypeOf(object) != reflect.TypeOf(due) {
		return nil, wrongKind(due, object)
	}
	l.items += meta.LenList(object)
	if l.pages++; l.items > maxListItems || l.pages > maxListPages {
		return nil, fmt.Errorf("the API server's list of %s does not end: %d objects on %d pages so far",
			l.resource.Name, l.items, l.pages)
	}
	return object, nil
}

// sized is an object of the API that knows how many bytes it has, encoded.
type sized interface{ Size() int }

// initial bounds what a watch sends as a list. What comes after it replaces and removes objects. late is called if the
// list takes too long.
func (l *lists[T]) initial(w watch.Interface, late func()) watch.Interface {
	listing, items := true, 0
	end := time.AfterFunc(listTimeout, late)
	left := l.newBudget()
	return watch.Filter(w, func(e watch.Event) (watch.Event, bool) {
		if !listing || e.Type == watch.Error {
			return e, true
		}
		if o, err := meta.Accessor(e.Object); err == nil && e.Type == watch.Bookmark &&
			o.GetAnnotations()[metav1.InitialEventsAnnotationKey] != "" {
			listing = false
			end.Stop()
			return e, true
		}
		var err error
		if s, ok := e.Object.(sized); ok {
			err = left.take(s.Size())
		}
		if items++; err == nil && items > maxListItems {
			err = fmt.Errorf("the API server's list of %s does not end: %d objects so far", l.resource.Name, items)
		}
		if err != nil {
			return watch.Event{Type: watch.Error, Object: &metav1.Status{
				Status: metav1.StatusFailure, Reason: metav1.StatusReasonInvalid, Code: http.StatusUnprocessableEntity,
				Message: err.Error(),
			}}, true
		}
		return e, true
	})
}

// each bounds the bytes of each event of a watch. The budget begins again when an event is taken. The next one may be
// under way by then, so two events may share one budget, which has room for ten real ones.
func (l *lists[T]) each(ctx context.Context) (context.Context, func(watch.Interface) watch.Interface) {
	b := newBudget("event of a watch of "+l.resource.Name, maxObjectBytes)
	return context.WithValue(ctx, budgetKey{}, b), func(w watch.Interface) watch.Interface {
		return watch.Filter(w, func(e watch.Event) (watch.Event, bool) {
			b.refill()
			return e, true
		})
	}
}

// withWatchTimeout bounds a watch that the API server does not end by itself.
func withWatchTimeout(ctx context.Context, seconds *int64) (context.Context, context.CancelFunc) {
	if seconds == nil {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, time.Duration(*seconds)*time.Second+watchGrace)
}

// ending is a watch with a context of its own.
type ending struct {
	watch.Interface
	end context.CancelFunc
}

// Stop ends the watch.
func (e ending) Stop() {
	e.Interface.Stop()
	e.end()
}
