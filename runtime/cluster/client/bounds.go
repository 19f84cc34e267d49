package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// What an API server can send. It may run what it likes on the node, so these bounds guard against its faults, and
// against the faults of proxies before it.
const (
	// maxObjectBytes bounds the answer to a request for an object, which has at most 1.5 MiB: etcd's --max-request-bytes.
	maxObjectBytes = 16 << 20
	// maxItemBytes bounds an item of a list and an event of a watch in protobuf: twice what etcd stores by default.
	// maxJSONItemBytes is the same in JSON, which writes a byte as up to six, and the names of fields.
	maxItemBytes     = 3 << 20
	maxJSONItemBytes = 4 * maxItemBytes
	// maxPassedOver bounds an item that is passed over: no API has an object with more.
	maxPassedOver = 256 << 20
	// maxHeadBytes bounds everything of a list but its items.
	maxHeadBytes = 64 << 10
	// maxListItems bounds the objects that are kept of a list, reduced: beyond it the largest namespace is left out. A
	// node has 12,500 pods that have ended at most. Who takes objects as they are read has a bound of its own.
	maxListItems = 100_000
	// maxListRead and maxListPages bound a list that does not end: no etcd stores that many objects of a kind.
	maxListRead  = 2_000_000
	maxListPages = 10_000
	// listTimeout bounds a page, and what a watch sends as a list; the API server ends a request after a minute.
	listTimeout = 2 * time.Minute
	// watchGrace is how much longer a watch may last than the API server was requested to let it.
	watchGrace = time.Minute
	// maxReasonBytes bounds what errors repeat of a response that does not follow the API.
	maxReasonBytes = 64
)

// errRedirect means that something stands before the API server that does not pass its requests on.
var errRedirect = errors.New("the server redirects to another address, which is not followed with this node's " +
	"credentials; set clusters[].cluster.server of the kubeconfig to the API server itself")

func refuseRedirect(*http.Request, []*http.Request) error { return errRedirect }

// budget is how many bytes an answer may have.
type budget struct {
	left atomic.Int64
	all  int64
	// kind is the answer's Content-Type.
	kind atomic.Value
}

type budgetKey struct{}

func newBudget(bytes int64) *budget {
	b := &budget{all: bytes}
	b.left.Store(bytes)
	return b
}

// budgetOf returns the budget of a request: the budget in its context, or the budget of one object.
func budgetOf(ctx context.Context) *budget {
	if b, ok := ctx.Value(budgetKey{}).(*budget); ok {
		return b
	}
	return newBudget(maxObjectBytes)
}

// take reports whether there is room for n more bytes.
func (b *budget) take(n int) error {
	if b.left.Add(-int64(n)) < 0 {
		return fmt.Errorf("the API server's answer has more than %d bytes", b.all)
	}
	return nil
}

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
