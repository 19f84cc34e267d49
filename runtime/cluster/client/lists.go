package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
)

// encoding is how an answer is encoded.
type encoding int

const (
	asJSON encoding = iota
	asProtobuf
)

// most returns the bound of an object's bytes.
func (e encoding) most() int64 {
	if e == asProtobuf {
		return maxItemBytes
	}
	return maxJSONItemBytes
}

// lists reads the lists and watches of one Reflector, which sends one request after the other, object by object: none
// of them, nor all together, keeps out another (ADR 074).
type lists[T any] struct {
	resource Resource[T]
	kind     string // of an object
	one      bool   // of the one object that a field selector names
	leftOut  func(LeftOut)
	maxRead  int // maxListRead, unless a test sets it
	maxItems int // maxListItems, unless a Reader has another bound
	// begin, if it is set, is called as a list begins, and returns what takes its objects instead of the list.
	begin func() (take func(*T))
	// again is of the lists and of the watches.
	again *listsAgain

	// Of the list under way.
	take  func(*T)
	crowd crowd
	read  int
	pages int
}

func newLists[T any](leftOut func(LeftOut), r Resource[T], one bool) *lists[T] {
	l := &lists[T]{resource: r, one: one, leftOut: leftOut, maxRead: maxListRead, maxItems: maxListItems,
		again: &listsAgain{now: time.Now}}
	kinds, _, err := Scheme().ObjectKinds(r.object(new(T)))
	if err != nil {
		panic("client: " + err.Error()) // a type that Scheme lacks
	}
	l.kind = kinds[0].Kind
	return l
}

// open sends a request and returns its answer. No sum bounds it: what reads it bounds each part.
func open(ctx context.Context, request *rest.Request) (io.ReadCloser, encoding, error) {
	b := newBudget(math.MaxInt64)
	body, err := request.Stream(context.WithValue(ctx, budgetKey{}, b))
	if err != nil {
		return nil, 0, err
	}
	kind, _ := b.kind.Load().(string)
	switch {
	case strings.Contains(kind, "protobuf"):
		return body, asProtobuf, nil
	case strings.Contains(kind, "json"), kind == "":
		return body, asJSON, nil
	}
	_ = body.Close() // an error follows
	return nil, 0, fmt.Errorf("the API server answered with Content-Type %.*q", maxReasonBytes, kind)
}

// restart begins another list.
func (l *lists[T]) restart() {
	l.crowd, l.read, l.pages = crowd{}, 0, 0
	l.again.begin()
	if l.begin != nil {
		l.take = l.begin()
	}
}

// page reads a page of the list that continue, if it is set, continues.
func (l *lists[T]) page(ctx context.Context, request *rest.Request, more string) (runtime.Object, error) {
	if more == "" {
		l.restart()
	}
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	body, as, err := open(ctx, request)
	if err != nil {
		return nil, err
	}
	defer func() { _ = body.Close() }() // nothing was written
	return l.decode(body, as)
}

// decode reads the next page of a list.
func (l *lists[T]) decode(body io.Reader, as encoding) (runtime.Object, error) {
	if l.pages++; l.pages > maxListPages {
		return nil, l.endless()
	}
	read := readJSONList
	if as == asProtobuf {
		read = readProtobufList
	}
	list := l.resource.list()
	var items []T
	meta, err := read(bufio.NewReaderSize(body, maxHeadBytes), l.kind+"List", list, func(in item) error {
		if l.read++; l.read > l.maxRead {
			return l.endless()
		}
		object, err := l.next(in, l.take)
		if object != nil {
			items = append(items, *object)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if meta.Continue == "" {
		l.again.end()
	}
	return l.whole(list, meta, items), nil
}

func (l *lists[T]) endless() error {
	return fmt.Errorf("the API server's list of %s does not end: %d objects on %d pages so far", l.resource.Name, l.read,
		l.pages)
}

// whole returns the list with the items that are not left out.
func (l *lists[T]) whole(list runtime.Object, meta metav1.ListMeta, items []T) runtime.Object {
	if len(l.crowd.out) > 0 {
		items = slices.DeleteFunc(items, func(o T) bool { return l.crowd.out[l.metaOf(&o).GetNamespace()] })
		if l.resource.stubs {
			items = append(items, *stub(&l.resource, identity{}, crowded(slices.Sorted(maps.Keys(l.crowd.out))[0])))
		}
	}
	// Every list of the API has these two fields.
	v := reflect.ValueOf(list).Elem()
	v.FieldByName("ListMeta").Set(reflect.ValueOf(meta))
	v.FieldByName("Items").Set(reflect.ValueOf(items))
	return list
}

func (l *lists[T]) metaOf(o *T) metav1.Object {
	meta, _ := l.resource.object(o).(metav1.Object)
	return meta
}

// next returns an object of a list, nil if the object is left out or take has taken it. An error ends the list.
func (l *lists[T]) next(in item, take func(*T)) (*T, error) {
	object, err := l.object(in)
	if err != nil {
		if l.one {
			return nil, err
		}
		l.again.note()
		return object, nil
	}
	if take != nil {
		take(object)
		return nil, nil
	}
	meta := l.metaOf(object)
	room, out := l.crowd.enter(meta.GetNamespace(), meta.GetName(), l.maxItems)
	if out != "" {
		l.leftOut(LeftOut{Resource: l.resource.Name, Namespace: out, Reason: errCrowd.Error()})
	}
	if !room {
		return nil, nil
	}
	return object, nil
}

// object decodes an object. One that cannot be read is reported, with an error; it comes with its stub if the resource
// has stubs.
func (l *lists[T]) object(in item) (*T, error) {
	object := new(T)
	err := decodeItem(&l.resource, in, object)
	if err == nil {
		return object, nil
	}
	i := identityOf(in)
	l.leftOut(LeftOut{
		Resource: l.resource.Name, Namespace: i.namespace, Name: i.name, UID: types.UID(i.uid), One: l.one,
		Reason: err.Error(),
	})
	err = fmt.Errorf("the API server's object %.*q of %s %w: %w", maxReasonBytes, i.name, l.resource.Name, ErrUnreadable,
		err)
	if !l.resource.stubs {
		return nil, err
	}
	return stub(&l.resource, i, err), err
}

// identityOf returns what names an object that cannot be read, nothing if that cannot be read either.
func identityOf(in item) identity {
	i := jsonIdentity
	if in.as == asProtobuf {
		i = protobufIdentity
	}
	if found := i(in.data); found.known() {
		return found
	}
	return identity{}
}

// errCrowd is why the objects of a namespace are left out of a list.
var errCrowd = fmt.Errorf("the cluster has more than %d objects that this node follows, most of them in this "+
	"namespace", maxListItems)

// crowded returns errCrowd with a namespace that is left out.
func crowded(namespace string) error { return fmt.Errorf("%w: %s", errCrowd, namespace) }

// crowd bounds the objects of a list: beyond the bound, it leaves out the objects of the largest namespace.
type crowd struct {
	names map[string][]string
	total int
	out   map[string]bool
	// gone are the objects of a namespace that were in the list when it was left out.
	gone []identity
}

// Largest returns the key of the largest value. Of equally large values it prefers first, then the first key in order.
func Largest[V any](all map[string]V, first string, size func(V) int) string {
	largest := first
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if size(all[key]) > size(all[largest]) {
			largest = key
		}
	}
	return largest
}

// enter reports whether there is room for an object among most, and returns the namespace that is left out from now on,
// if any. Objects without a namespace are left out one by one.
func (c *crowd) enter(namespace, name string, most int) (room bool, out string) {
	if c.names == nil {
		c.names, c.out = map[string][]string{}, map[string]bool{}
	}
	if c.out[namespace] {
		return false, ""
	}
	if c.total >= most {
		out = Largest(c.names, namespace, func(names []string) int { return len(names) })
		if out == "" {
			return false, ""
		}
		for _, name := range c.names[out] {
			c.gone = append(c.gone, identity{namespace: out, name: name})
		}
		c.total -= len(c.names[out])
		delete(c.names, out)
		c.out[out] = true
	}
	if c.out[namespace] {
		return false, out
	}
	c.names[namespace] = append(c.names[namespace], name)
	c.total++
	return true, out
}

// unlimited is the context of a request that does not wait for its turn: a watch, as in client-go.
func unlimited(ctx context.Context) context.Context {
	left := new(atomic.Bool)
	left.Store(true)
	return context.WithValue(ctx, taken{}, left)
}

var errNoIdentity = errors.New("the API server's watch has an event of an object that cannot be read, nor its name")

// bookmark returns the metadata of a bookmark's object.
func bookmark[T any](r Resource[T], in item) (*T, bool) {
	r.Reduced = nil
	out := new(T)
	return out, decodeItem(&r, in, out) == nil
}
