package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cluster/client"
	"github.com/journalet/journalet/runtime/objects"
)

const (
	// firstDelay and maxDelay bound the wait after a failure; it doubles between the two. Those of a Reflector.
	firstDelay = 800 * time.Millisecond
	maxDelay   = 30 * time.Second
	// lasting is how long a watch lasts after which the delay begins at firstDelay again.
	lasting = time.Minute
	// lagDelay and maxLagDelay bound the wait after a 403 that lag explains: for lagFor after the first request, the
	// authorizer may not have heard yet that a pod is bound to the node.
	lagDelay    = 50 * time.Millisecond
	maxLagDelay = time.Second
	lagFor      = 10 * time.Second
	// anyVersion is the resourceVersion of a list that may be of any age.
	anyVersion = "0"
)

// delays are the waits between the tries of one object.
type delays struct {
	began     time.Time
	lag, next time.Duration
}

func newDelays() *delays { return &delays{began: time.Now(), lag: lagDelay, next: firstDelay} }

// lagging reports whether an error is a 403 that passes by itself, and for how long to wait.
func (d *delays) lagging(err error) (time.Duration, bool) {
	if !apierrors.IsForbidden(err) || time.Since(d.began) > lagFor {
		return 0, false
	}
	wait := d.lag
	d.lag = min(2*d.lag, maxLagDelay)
	return wait, true
}

// after returns the wait after a failure.
func (d *delays) after() time.Duration {
	wait := d.next
	d.next = min(2*d.next, maxDelay)
	return wait
}

// follow follows an object until ctx ends.
func (b *Backing) follow(ctx context.Context, e *entry) {
	c, k := b.opts.Client, e.key
	switch k.Kind {
	case journaletv1.ObjectKind_OBJECT_KIND_CONFIG_MAP:
		s := &single{b: b, e: e}
		b.reflect(ctx, s, oneByName(c, client.ConfigMaps, k, s.notesRequest), &corev1.ConfigMap{})
	case journaletv1.ObjectKind_OBJECT_KIND_SECRET:
		s := &single{b: b, e: e}
		b.reflect(ctx, s, oneByName(c, client.Secrets, k, s.notesRequest), &corev1.Secret{})
	case journaletv1.ObjectKind_OBJECT_KIND_SERVICE_ACCOUNT_TOKEN:
		b.renew(ctx, e)
	case journaletv1.ObjectKind_OBJECT_KIND_POD_CERTIFICATE:
		b.certify(ctx, e)
	case journaletv1.ObjectKind_OBJECT_KIND_CLUSTER_TRUST_BUNDLE:
		if k.Name != "" {
			b.followBundle(ctx, e)
		} else {
			b.followBundles(ctx, e)
		}
	}
}

// reflect follows an object by its name.
func (b *Backing) reflect(ctx context.Context, s *single, lw *cache.ListWatch, kind any) {
	ctx, s.end = context.WithCancel(ctx)
	defer s.end()
	e := s.e
	r := cache.NewReflectorWithOptions(lw, kind, s, cache.ReflectorOptions{
		Name: "object " + e.key.Namespace + "/" + e.key.Name,
	})
	b.repeat(ctx, attempts{
		begin: r.ListAndWatchWithContext, read: func() bool { return b.read(e) },
		failed: func(err error) { b.fault(err, e) },
	})
}

// attempts are lists and watches.
type attempts struct {
	// begin lists and watches until something fails.
	begin func(context.Context) error
	// read reports whether there was a list.
	read func() bool
	// failed takes a failure that does not pass by itself.
	failed func(error)
}

// repeat repeats attempts until ctx ends.
func (b *Backing) repeat(ctx context.Context, a attempts) {
	d := newDelays()
	for {
		began := time.Now()
		err := a.begin(ctx)
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > lasting {
			d.next = firstDelay
		}
		wait, lagging := d.lagging(err)
		if !lagging || a.read() {
			wait = d.after()
			if decided(err) {
				b.answered()
			}
			if err != nil {
				a.failed(err)
			}
		}
		b.wait(ctx, wait)
	}
}

// fault takes what keeps an object from being read.
func (b *Backing) fault(err error, e *entry) {
	if decided(err) {
		b.failed(e, objects.Object{State: unreadable, Message: text(err)})
	} else {
		b.unanswered(e, text(err))
	}
}

// decided reports whether an error concerns the object, and not whether the API server answers.
func decided(err error) bool {
	return answer(err) || errors.Is(err, client.ErrUnreadable) || errors.Is(err, errUnserved) ||
		errors.Is(err, errTooLarge)
}

// oneByName returns the lists and watches of one object.
func oneByName[T any](c *client.Client, r client.Resource[T], k objects.Key, requests func()) *cache.ListWatch {
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, k.Name).String()
	all, err := client.ListWatch(c, r, k.Namespace, selector, once)
	if err != nil {
		panic("objects: " + err.Error()) // a selector of ours
	}
	return patient(all, requests)
}

// once has client-go repeat nothing by itself: pods wait for what was kept, and the first answer ends all waits.
func once(q *rest.Request) *rest.Request { return q.MaxRetries(0) }

// patient returns lists and watches whose first list is no older than its request, which requests announces. The
// Reflector would accept a list from a cache that has not heard of the newest object, and an immutable object is not
// read a second time.
func patient(all *cache.ListWatch, requests func()) *cache.ListWatch {
	list, follow := all.ListWithContextFunc, all.WatchFuncWithContext
	return &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			ctx, cancel := context.WithTimeout(ctx, client.RequestTimeout)
			defer cancel()
			if o.ResourceVersion == anyVersion {
				o.ResourceVersion, o.ResourceVersionMatch = "", ""
			}
			requests()
			return list(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			if o.SendInitialEvents != nil && *o.SendInitialEvents {
				requests()
			}
			w, err := follow(ctx, o)
			if err != nil && !decided(err) {
				err = errors.New(text(err)) // the Reflector repeats some errors by itself
			}
			return w, err
		},
	}
}

// failed takes that the API server refuses an object. What was read before stays in use.
func (b *Backing) failed(e *entry, o objects.Object) {
	b.mu.Lock()
	if e.now != nil {
		o.ConfigMap, o.Secret, o.Data, o.Version = e.now.ConfigMap, e.now.Secret, e.now.Data, e.now.Version
		o.Certificate = e.now.Certificate
	}
	b.mu.Unlock()
	b.set(e, o, time.Time{})
}

// answer reports whether an error is a decision of the API server on the object. A server that is overloaded, broken or
// does not know us has decided nothing.
func answer(err error) bool {
	var s apierrors.APIStatus
	if !errors.As(err, &s) {
		return false
	}
	code := s.Status().Code
	return code >= 400 && code < 500 && code != http.StatusUnauthorized && code != http.StatusTooManyRequests
}

// text returns an error in the API server's words, without what client-go puts before them.
func text(err error) string {
	var s apierrors.APIStatus
	if errors.As(err, &s) && s.Status().Message != "" {
		return s.Status().Message
	}
	if errors.Is(err, errUnserved) {
		return errUnserved.Error()
	}
	return client.Message(err)
}

// single is the store of a Reflector that follows one object. The Reflector calls its methods in turn.
type single struct {
	b         *Backing
	e         *entry
	end       context.CancelFunc
	requested time.Time // for the last list
}

// notesRequest notes that a list is requested.
func (s *single) notesRequest() { s.requested = time.Now() }

// Add takes an object.
func (s *single) Add(o any) error {
	s.b.answered()
	is, ok := o.(metav1.Object)
	if ok && (is.GetName() != s.e.key.Name || is.GetNamespace() != s.e.key.Namespace) {
		return errors.New("the API server sent another object than the one that is followed")
	}
	out := objects.Object{State: present, Requested: s.requested}
	switch o := o.(type) {
	case *corev1.ConfigMap:
		out.ConfigMap, out.Immutable = o, o.Immutable != nil && *o.Immutable
	case *corev1.Secret:
		out.Secret, out.Immutable = o, o.Immutable != nil && *o.Immutable
	case *certificatesv1.ClusterTrustBundle:
		var certificates objects.Certificates
		certificates.Add(o.Spec.TrustBundle)
		out.Data = certificates.PEM()
	default:
		return fmt.Errorf("the API server sent a %T", o)
	}
	out.UID, out.Version = string(is.GetUID()), is.GetResourceVersion()
	is.SetManagedFields(nil)
	if s.e.key.UID != "" && s.e.key.UID != out.UID {
		s.gone()
		return nil
	}
	s.b.set(s.e, out, time.Time{})
	if out.Immutable {
		s.end()
	}
	return nil
}

// gone takes that the object that is followed by its UID is not there any more. It does not come back.
func (s *single) gone() {
	s.b.gone(s.e)
	s.end()
}

// Update takes a newer object.
func (s *single) Update(o any) error { return s.Add(o) }

// Delete takes that the object is gone.
func (s *single) Delete(any) error {
	if s.e.key.UID != "" {
		s.gone()
		return nil
	}
	s.b.set(s.e, objects.Object{State: missing, Message: s.e.key.Missing()}, time.Time{})
	return nil
}

// Replace takes the object of a list, if it has one.
func (s *single) Replace(all []any, _ string) error {
	s.b.answered()
	if len(all) == 0 {
		return s.Delete(nil)
	}
	return s.Add(all[0])
}

// Resync does nothing.
func (s *single) Resync() error { return nil }
