package api

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/journalet/journalet/runtime/cluster/client"
	"github.com/journalet/journalet/runtime/objects"
)

const (
	// maxSignerBytes bounds what is kept of the trust bundles of one signer: sixteen of the largest, as Kubernetes bounds
	// each (1 MiB). They are in memory while a pod selects among them.
	maxSignerBytes = 16 << 20
	// findAgain is for how long an API server is known to have no trust bundles: each source tries again by itself, and
	// there may be hundreds.
	findAgain = 10 * time.Second
	// bundleOverhead is what a bundle takes in memory besides its texts, so that maxSignerBytes bounds their number, too.
	bundleOverhead = 512
)

var (
	errUnserved = errors.New("the API server has no ClusterTrustBundles of certificates.k8s.io/v1 or v1beta1; enable " +
		"one of them (kube-apiserver --runtime-config and the feature gate ClusterTrustBundle)")
	errTooLarge = errors.New("the trust bundles of a signer have too many bytes")
)

// bundleResource is a version of trust bundles.
type bundleResource = client.Resource[certificatesv1.ClusterTrustBundle]

// trust is what a Backing follows of trust bundles.
type trust struct {
	// finding is held while a version is being found: one request is for all.
	finding sync.Mutex
	// found is the index of the version that the API server has, and one; 0: not known.
	found int
	// absent is until when the API server counts as having none, and again findAgain, unless a test sets it.
	absent time.Time
	again  time.Duration

	// mu is locked before the mu of the Backing.
	mu      sync.Mutex
	signers map[string]*signer
	// most is maxSignerBytes, unless a test sets it.
	most int
}

// version returns the index of the best version that the API server has. The kubelet finds it once; here a version that
// is gone is found again, so that an upgrade of the API server needs no restart of the agent.
func (t *trust) version(ctx context.Context, c *client.Client) (int, error) {
	t.finding.Lock()
	defer t.finding.Unlock()
	if t.found > 0 {
		return t.found - 1, nil
	}
	if time.Now().Before(t.absent) {
		return 0, errUnserved
	}
	for i, r := range client.ClusterTrustBundles {
		has, err := client.Serves(ctx, c, r)
		if err != nil {
			return 0, err
		}
		if has {
			t.found = i + 1
			return i, nil
		}
	}
	t.absent = time.Now().Add(t.again)
	return 0, errUnserved
}

// outcome takes the outcome of a request of a version.
func (t *trust) outcome(err error) {
	if apierrors.IsNotFound(err) {
		t.finding.Lock()
		t.found = 0
		t.finding.Unlock()
	}
}

// bundleLists returns the lists and watches of trust bundles in the version that the API server has.
func (b *Backing) bundleLists(listWatchOf func(bundleResource) *cache.ListWatch) *cache.ListWatch {
	var all []*cache.ListWatch
	for _, r := range client.ClusterTrustBundles {
		all = append(all, listWatchOf(r))
	}
	list := func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
		i, err := b.trust.version(ctx, b.opts.Client)
		if err != nil {
			return nil, err
		}
		out, err := all[i].ListWithContextFunc(ctx, o)
		b.trust.outcome(err)
		return out, err
	}
	follow := func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
		i, err := b.trust.version(ctx, b.opts.Client)
		if err != nil {
			return nil, err
		}
		out, err := all[i].WatchFuncWithContext(ctx, o)
		b.trust.outcome(err)
		return out, err
	}
	return &cache.ListWatch{ListWithContextFunc: list, WatchFuncWithContext: follow}
}

// followBundle follows the trust bundle of a name until ctx ends.
func (b *Backing) followBundle(ctx context.Context, e *entry) {
	s := &single{b: b, e: e}
	b.reflect(ctx, s, b.bundleLists(func(r bundleResource) *cache.ListWatch {
		return oneByName(b.opts.Client, r, e.key, s.notesRequest)
	}), &certificatesv1.ClusterTrustBundle{})
}

// followBundles follows the trust bundles of a signer that a selector matches, until ctx ends.
func (b *Backing) followBundles(ctx context.Context, e *entry) {
	name, matches, err := objects.TrustSelector(e.key)
	if err != nil {
		b.set(e, objects.Object{State: unreadable, Message: err.Error()}, time.Time{})
		return
	}
	if _, selectable := matches.Requirements(); !selectable {
		b.set(e, objects.Object{State: missing, Message: e.key.Missing()}, time.Time{})
		return
	}
	s := b.join(name, e, matches)
	<-ctx.Done()
	b.leave(s, e)
}

// join adds a source to the sources that select among a signer's trust bundles. The first source begins to follow the
// bundles.
func (b *Backing) join(name string, e *entry, matches labels.Selector) *signer {
	t := &b.trust
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.signers[name]
	if s == nil {
		b.mu.Lock()
		ctx, end := context.WithCancel(b.ctx)
		b.mu.Unlock()
		s = &signer{b: b, name: name, end: end, users: map[*entry]labels.Selector{}}
		t.signers[name] = s
		b.running.Go(func() { s.run(ctx) })
	}
	s.users[e] = matches
	switch {
	case s.now != nil:
		s.give(e, map[string][]byte{})
	case s.problem != nil:
		b.fault(s.problem, e)
	}
	return s
}

// leave removes a source; after the last one nothing is followed.
func (b *Backing) leave(s *signer, e *entry) {
	b.trust.mu.Lock()
	defer b.trust.mu.Unlock()
	delete(s.users, e)
	if len(s.users) == 0 {
		s.end()
		delete(b.trust.signers, s.name)
	}
}

// signer follows the trust bundles of a signer for all sources that select among them: these are in memory once, and
// one watch is for all. It is the store of a Reflector. The mutex of trust guards its fields.
type signer struct {
	b    *Backing
	name string
	end  context.CancelFunc
	// stop ends the attempt under way.
	stop  context.CancelCauseFunc
	users map[*entry]labels.Selector
	// now is nil before the first list; next is the list that is being read.
	now, next *bundles
	// problem is why there is no list yet.
	problem error
}

// run follows the trust bundles until ctx ends.
func (s *signer) run(ctx context.Context) {
	b := s.b
	selected := fields.OneTermEqualSelector("spec.signerName", s.name)
	lw := b.bundleLists(func(r bundleResource) *cache.ListWatch {
		return patient(client.ListWatchInto(b.opts.Client, r, selected, s.begin, once), func() {})
	})
	r := cache.NewReflectorWithOptions(lw, &certificatesv1.ClusterTrustBundle{}, s, cache.ReflectorOptions{
		Name: "trust bundles of " + s.name,
	})
	b.repeat(ctx, attempts{
		begin: func(ctx context.Context) error { return s.attempt(ctx, r) },
		read: func() bool {
			b.trust.mu.Lock()
			defer b.trust.mu.Unlock()
			return s.now != nil
		},
		failed: s.failed,
	})
}

// attempt lists and watches until something fails, be it that the bundles have too many bytes.
func (s *signer) attempt(ctx context.Context, r *cache.Reflector) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	s.b.trust.mu.Lock()
	s.stop = stop
	s.b.trust.mu.Unlock()
	err := r.ListAndWatchWithContext(ctx)
	if cause := context.Cause(ctx); errors.Is(cause, errTooLarge) {
		return cause
	}
	return err
}

// failed reports to all sources why the trust bundles cannot be read.
func (s *signer) failed(err error) {
	s.b.trust.mu.Lock()
	defer s.b.trust.mu.Unlock()
	s.problem = err
	for e := range s.users {
		s.b.fault(err, e)
	}
}

// bundles are the trust bundles of a signer by their names.
type bundles struct {
	all   map[string]bundle
	bytes int
}

type bundle struct {
	labels       labels.Set
	certificates string
}

func (b *bundle) size(name string) int {
	n := bundleOverhead + len(name) + len(b.certificates)
	for key, value := range b.labels {
		n += len(key) + len(value)
	}
	return n
}

// remove removes a bundle.
func (b *bundles) remove(name string) {
	if had, ok := b.all[name]; ok {
		b.bytes -= had.size(name)
		delete(b.all, name)
	}
}

// set takes a bundle, and ends its attempt by stop if all have too many bytes with it; trust.mu is held.
func (s *signer) set(into *bundles, o *certificatesv1.ClusterTrustBundle, stop context.CancelCauseFunc) {
	if o.Spec.SignerName != s.name {
		into.remove(o.Name)
		return // the API server selects
	}
	one := bundle{labels: o.Labels, certificates: o.Spec.TrustBundle}
	bytes := into.bytes + one.size(o.Name)
	if had, ok := into.all[o.Name]; ok {
		bytes -= had.size(o.Name)
	}
	if bytes > s.b.trust.most {
		stop(fmt.Errorf("%w: those of %s have more than %d", errTooLarge, s.name, s.b.trust.most))
		return
	}
	into.all[o.Name], into.bytes = one, bytes
}

// begin begins a list.
func (s *signer) begin() (take func(*certificatesv1.ClusterTrustBundle)) {
	next := &bundles{all: map[string]bundle{}}
	s.b.trust.mu.Lock()
	defer s.b.trust.mu.Unlock()
	s.next = next
	stop := s.stop // the list may be read on beside the next attempt, which it must not end
	return func(o *certificatesv1.ClusterTrustBundle) {
		s.b.trust.mu.Lock()
		defer s.b.trust.mu.Unlock()
		s.set(next, o, stop)
	}
}

// give gives a source the certificates that it selects. Sources that select the same bundles share one copy, by the
// names of these. trust.mu is held.
func (s *signer) give(e *entry, copies map[string][]byte) {
	var names []string
	for name, one := range s.now.all {
		if s.users[e].Matches(one.labels) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		s.b.replace(e, objects.Object{State: missing, Message: e.key.Missing()})
		return
	}
	slices.Sort(names)
	text := strings.Join(names, "\n")
	if copies[text] == nil {
		var certificates objects.Certificates
		for _, name := range names {
			certificates.Add(s.now.all[name].certificates)
		}
		copies[text] = certificates.PEM()
	}
	s.b.replace(e, objects.Object{State: present, Data: copies[text]})
}

// giveAll gives all sources what they select; trust.mu is held.
func (s *signer) giveAll() {
	s.problem = nil
	copies := map[string][]byte{}
	for e := range s.users {
		s.give(e, copies)
	}
}

// Add takes a bundle.
func (s *signer) Add(o any) error {
	one, ok := o.(*certificatesv1.ClusterTrustBundle)
	if !ok {
		return fmt.Errorf("the API server sent a %T", o)
	}
	s.b.trust.mu.Lock()
	defer s.b.trust.mu.Unlock()
	s.set(s.now, one, s.stop)
	s.giveAll()
	return nil
}

// Update takes a newer bundle.
func (s *signer) Update(o any) error { return s.Add(o) }

// Delete takes that a bundle is gone.
func (s *signer) Delete(o any) error {
	is, ok := o.(metav1.Object)
	if !ok {
		return fmt.Errorf("the API server sent a %T", o)
	}
	s.b.trust.mu.Lock()
	defer s.b.trust.mu.Unlock()
	s.now.remove(is.GetName())
	s.giveAll()
	return nil
}

// Replace takes that the list has been read whole.
func (s *signer) Replace([]any, string) error {
	s.b.answered()
	s.b.trust.mu.Lock()
	defer s.b.trust.mu.Unlock()
	s.now = s.next
	s.giveAll()
	return nil
}

// Resync does nothing.
func (s *signer) Resync() error { return nil }
