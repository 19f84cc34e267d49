package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/journalet/journalet/actors/references"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/cluster/client"
	"github.com/journalet/journalet/runtime/objects"
)

// Times of certificates; those without another source are the kubelet's (pkg/kubelet/podcertificate).
const (
	// overdueAfter is how long after its time a renewal is overdue.
	overdueAfter = 10 * time.Minute
	// goneAfter is how long after its creation a request that the API server does not have counts as deleted: a watch may
	// lag. Both this and the time of a renewal are later by maxJitter at most, at random.
	goneAfter = 10 * time.Minute
	maxJitter = 5 * time.Minute
	// checkEvery is how often waits are compared with the time of day, and leastRefresh how long a certificate is used at
	// least. The kubelet checks all certificates every 1 to 2 min.
	checkEvery   = time.Minute
	leastRefresh = time.Minute
	// pendingAfter is how long a signer may take before the pod reports that it waits. Ours: the kubelet reports it at
	// once, of each pod.
	pendingAfter = 500 * time.Millisecond
	// firstUnusable and lastUnusable bound the wait after certificates that cannot be used; it doubles between the two.
	// Ours: the kubelet takes what it is given.
	firstUnusable = time.Minute
	lastUnusable  = 30 * time.Minute
)

// The kubelet's words.
const (
	notIssued = "credential bundle is not issued yet"

	reasonOverdue = "CertificateOverdueForRefresh"
	reasonExpired = "CertificateExpired"
	overdue       = "PodCertificate refresh overdue"
	expired       = "PodCertificate expired"

	// reasonInvalid is the reason of a request that counts as failed here.
	reasonInvalid = "InvalidCertificateChain"
)

var errCrowded = errors.New("podCertificate sources of this namespace hold too much on this node; delete pods of it")

// errNoRequests is of API servers before Kubernetes 1.37.
var errNoRequests = errors.New("the API server has no PodCertificateRequests of certificates.k8s.io/v1; it is to be " +
	"one of Kubernetes 1.37 or later")

// ownError is an error that the API server has no part in.
type ownError struct{ error }

// certified is a source with a certificate. One goroutine works on it.
type certified struct {
	b        *Backing
	e        *entry
	selector references.CertificateSelector
	d        *delays
	// unusable is the next wait after certificates that cannot be used.
	unusable time.Duration
	// said is what the source has last reported while it has no certificate.
	said string
	// held is nil before the first certificate.
	held *held
	// bytes count in the source's namespace.
	bytes int
}

// held is a certificate in use.
type held struct {
	refreshAt, notAfter time.Time
	// overdue and expired report whether there was an event.
	overdue, expired bool
}

// certify requests the certificate of a source, and another one before it ends, until ctx ends. What is requested again
// after a start is all of it: keys are not kept.
func (b *Backing) certify(ctx context.Context, e *entry) {
	s := &certified{b: b, e: e, d: newDelays(), unusable: firstUnusable}
	if err := bounded.JSON([]byte(e.key.Selector), maxSelectorBytes, &s.selector); err != nil {
		s.waits(fmt.Sprintf("the selector of the certificate: %v", err))
		return
	}
	for !s.grow(sourceBytes) {
		s.waits(errCrowded.Error())
		if s.pause(ctx, nil, maxDelay); ctx.Err() != nil {
			return
		}
	}
	defer func() { s.grow(-s.bytes) }()
	b.beginRequests(s)
	defer b.issuing.quit(s)
	for ctx.Err() == nil {
		r, err := s.request(ctx)
		if err != nil {
			s.refused(ctx, err)
			continue
		}
		a := s.await(ctx, r)
		b.issuing.forget(r)
		switch {
		case ctx.Err() != nil:
		case a.kind == "":
			s.waits(notIssued + ": PodCertificateRequest " + r.full() + " appears to have been deleted")
		case a.kind == certificatesv1.PodCertificateRequestConditionTypeIssued:
			s.issued(ctx, r, a)
		default:
			s.ended(r, a)
			<-ctx.Done()
		}
	}
}

// grow adds to the bytes of the source, unless its namespace has too many then.
func (s *certified) grow(bytes int) bool {
	if !s.b.issuing.hold(s.e.key.Namespace, bytes) {
		return false
	}
	s.bytes += bytes
	return true
}

// request sends a request for a new key.
func (s *certified) request(ctx context.Context) (*request, error) {
	b, k := s.b, s.e.key
	pod, source, err := s.source(ctx)
	if err != nil {
		return nil, ownError{err}
	}
	b.issuing.note(s, func(now *standing) { now.signer = source.SignerName })
	account, err := client.Get(ctx, b.opts.Client, client.ServiceAccounts, k.Namespace, references.ServiceAccount(pod))
	if err != nil {
		return nil, err
	}
	node, err := client.Get(ctx, b.opts.Client, client.Nodes, "", b.opts.NodeName)
	if err != nil {
		return nil, err
	}
	var key *key
	if turn := b.issuing.turns.do(ctx, k.Namespace, func() { key, err = newKey(source.KeyType) }); turn != nil {
		return nil, turn
	}
	if err != nil {
		return nil, ownError{err}
	}
	r := b.issuing.expect(k.Namespace, key)
	out, err := client.Create(ctx, b.opts.Client, client.PodCertificateRequests, k.Namespace,
		&certificatesv1.PodCertificateRequest{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: k.Namespace, GenerateName: "req-",
				OwnerReferences: []metav1.OwnerReference{
					{APIVersion: "v1", Kind: "Pod", Name: k.Pod.Name, UID: types.UID(k.Pod.UID)},
				},
			},
			Spec: certificatesv1.PodCertificateRequestSpec{
				SignerName: source.SignerName, PodName: k.Pod.Name, PodUID: types.UID(k.Pod.UID),
				ServiceAccountName: account.Name, ServiceAccountUID: account.UID,
				NodeName: types.NodeName(b.opts.NodeName), NodeUID: node.UID,
				MaxExpirationSeconds: source.MaxExpirationSeconds, StubPKCS10Request: key.stub,
				UnverifiedUserAnnotations: source.UserAnnotations,
			},
		})
	if err == nil && (out.UID == "" || out.Name == "") {
		err = ownError{errors.New("the API server answered without a PodCertificateRequest")}
	}
	if err != nil {
		b.issuing.forget(r)
		return nil, s.b.explained(ctx, err)
	}
	b.answered()
	b.issuing.created(r, out)
	s.d.next = firstDelay
	return r, nil
}

// explained returns why a request could not be created. An API server that does not know its kind has no words for it.
func (b *Backing) explained(ctx context.Context, err error) error {
	if apierrors.IsNotFound(err) {
		if has, e := client.Serves(ctx, b.opts.Client, client.PodCertificateRequests); e == nil && !has {
			return ownError{errNoRequests}
		}
	}
	return err
}

// source returns the manifest of the pod, and the source in it.
func (s *certified) source(ctx context.Context) (*corev1.Pod, *corev1.PodCertificateProjection, error) {
	if s.b.opts.Pod == nil {
		return nil, nil, errors.New("this node has no manifests of pods")
	}
	pod, err := s.b.opts.Pod(ctx, s.e.key.Pod.UID)
	if err != nil {
		return nil, nil, err
	}
	source := references.CertificateSource(pod, s.e.key.Name, s.selector.Source)
	if source == nil {
		err = fmt.Errorf("source %d of volume %q is no podCertificate", s.selector.Source, s.e.key.Name)
	}
	return pod, source, err
}

// refused takes that a request could not be sent, and waits.
func (s *certified) refused(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	wait, lagging := s.d.lagging(err)
	if !lagging {
		wait = s.d.after()
		s.check()
		var own ownError
		switch {
		case errors.As(err, &own), decided(err):
			s.b.answered()
			s.waits(notIssued + ": " + text(err))
		case s.held == nil:
			s.said = ""
			s.b.unanswered(s.e, text(err))
		}
	}
	s.b.wait(ctx, wait)
}

// await waits for the answer to a request. Without one the request is gone, or ctx has ended.
func (s *certified) await(ctx context.Context, r *request) response {
	now := s.b.opts.Clock.Now()
	pending, gone := now.Add(pendingAfter), now.Add(goneAfter+rand.N(maxJitter))
	for {
		a, there, problem := s.b.issuing.state(r)
		now = s.b.opts.Clock.Now()
		if ctx.Err() != nil || a.kind != "" || !there && !now.Before(gone) {
			return a
		}
		s.check()
		wait := pending.Sub(now)
		if wait <= 0 {
			wait = checkEvery
			if problem != nil {
				s.waits(notIssued + ": the PodCertificateRequests of this node cannot be read: " + text(problem))
			} else {
				s.waits(notIssued)
			}
		}
		s.pause(ctx, r.changed, wait)
	}
}

// issued takes certificates, and returns when others are to be requested.
func (s *certified) issued(ctx context.Context, r *request, a response) {
	chain, err := r.key.chain(a)
	if err == nil && !s.grow(sourceBytes+len(r.key.private)+len(chain)-s.bytes) {
		err = errCrowded
	}
	if err != nil {
		s.failed(r, response{reason: reasonInvalid, message: text(err)})
		wait := s.unusable
		s.unusable = min(2*wait, lastUnusable)
		s.until(ctx, s.b.opts.Clock.Now().Add(wait))
		return
	}
	s.unusable, s.said = firstUnusable, ""
	s.held = &held{refreshAt: a.refreshAt.Add(rand.N(maxJitter)), notAfter: a.notAfter}
	s.b.issuing.note(s, func(now *standing) { now.refreshAt, now.notAfter = s.held.refreshAt, s.held.notAfter })
	s.b.set(s.e, objects.Object{
		State: present, Certificate: &objects.Certificate{Key: r.key.private, Chain: chain},
	}, time.Time{})
	at := s.b.opts.Clock.Now().Add(leastRefresh)
	if at.Before(s.held.refreshAt) {
		at = s.held.refreshAt
	}
	s.until(ctx, at)
}

// ended takes that a request was denied, or has failed. Neither the kubelet nor this node sends another one for the
// pod; files from before stay.
func (s *certified) ended(r *request, a response) {
	s.b.issuing.note(s, func(now *standing) { now.ended = strings.ToLower(a.kind) })
	if a.kind != certificatesv1.PodCertificateRequestConditionTypeDenied {
		s.failed(r, a)
		return
	}
	s.event(a.kind, "PodCertificateRequest %s was denied, reason=%q, message=%q", r.full(), a.reason, a.message)
	s.report(fmt.Sprintf("PodCertificateRequest was permanently denied: reason=%q message=%q", a.reason, a.message))
}

// failed takes that a request has failed, or counts as failed.
func (s *certified) failed(r *request, a response) {
	s.event(certificatesv1.PodCertificateRequestConditionTypeFailed,
		"PodCertificateRequest %s failed, reason=%q, message=%q", r.full(), a.reason, a.message)
	how := "was permanently failed"
	if a.kind == "" {
		how = "failed, and another one follows" // what the kubelet has no words for
	}
	s.report(fmt.Sprintf("PodCertificateRequest %s: reason=%q message=%q", how, a.reason, a.message))
}

// check emits, once each, that the certificate in use should have been renewed, and that it has expired.
func (s *certified) check() {
	h, now := s.held, s.b.opts.Clock.Now()
	if h == nil {
		return
	}
	if !h.overdue && now.After(h.refreshAt.Add(overdueAfter)) {
		h.overdue = true
		s.event(reasonOverdue, overdue)
		s.report(overdue)
	}
	if !h.expired && now.After(h.notAfter) {
		h.expired = true
		s.event(reasonExpired, expired)
		s.report(expired)
	}
}

func (s *certified) event(reason, format string, args ...any) {
	if s.b.opts.Event != nil {
		k := s.e.key
		s.b.opts.Event(&journaletv1.PodRef{Namespace: k.Namespace, Name: k.Pod.Name, Uid: k.Pod.UID}, reason,
			fmt.Sprintf(format, args...))
	}
}

// waits reports why the source has no certificate, if it has none.
func (s *certified) waits(why string) {
	if s.held == nil && s.said != why {
		s.report(why)
	}
}

// report reports what is wrong. A certificate in use stays in use.
func (s *certified) report(message string) {
	s.said = message
	s.b.failed(s.e, objects.Object{State: unreadable, Message: message})
}

// until waits until a time of day.
func (s *certified) until(ctx context.Context, at time.Time) {
	for ctx.Err() == nil {
		left := at.Sub(s.b.opts.Clock.Now())
		if left <= 0 {
			return
		}
		s.check()
		s.pause(ctx, nil, min(left, checkEvery))
	}
}

// pause waits until something has changed, for d at most.
func (s *certified) pause(ctx context.Context, changed <-chan struct{}, d time.Duration) {
	fired := make(chan struct{})
	stop := s.b.opts.Clock.AfterFunc(cmp.Or(d, 1), func() { close(fired) })
	defer stop()
	select {
	case <-ctx.Done():
	case <-changed:
	case <-fired:
	}
}
