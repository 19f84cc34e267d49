package url

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/clock"
	"github.com/journalet/journalet/runtime/source/feed"
	"github.com/journalet/journalet/runtime/source/manifest"
	"github.com/journalet/journalet/runtime/takeover"
)

const (
	// DefaultEvery is the pause between two requests (kubelet httpCheckFrequency: 20 s).
	DefaultEvery = 20 * time.Second
	// DefaultTimeout bounds a request with all its redirects and its body, as the kubelet's.
	DefaultTimeout = 10 * time.Second
	// outageAfter is how many requests in a row must fail before the outage is recorded in the journal.
	outageAfter = 3
	// loudFailures is how many failures in a row are logged as warnings, as in the kubelet.
	loudFailures = 3
	// retryMin and retryMax bound the doubling wait after a failure to store a manifest or to emit a fact.
	retryMin = 100 * time.Millisecond
	retryMax = 10 * time.Second
	// stallAfter is the time beyond a pause and a request after which a silent driver is unhealthy.
	stallAfter = time.Minute
)

// Options configure a Driver; URL, Node, Store and Sink must be set.
type Options struct {
	// URL is http or https, with a host.
	URL string
	// Header is sent with each request to the URL's own host.
	Header http.Header
	// Node is the node's name, in lower case.
	Node string
	// Classes returns the runtime classes, as for package file. May be nil.
	Classes func() *manifest.Classes
	// HasToken is as in manifest.Options. May be nil.
	HasToken func(namespace, account string) bool
	// TakenOver are the static pods of a kubelet, as for package file. May be nil.
	TakenOver *takeover.Static
	// Every defaults to DefaultEvery, Timeout to DefaultTimeout.
	Every, Timeout time.Duration
	// Store, Prime and Sink are as in package file.
	Store func(ctx context.Context, manifests iter.Seq2[string, []byte]) error
	Prime func(digest string, pod *corev1.Pod)
	Sink  func(context.Context, *journaletv1.ManifestsRead) error
	// Transport makes the requests. Default: one of the driver's own, with bounds.
	Transport http.RoundTripper
	Clock     clock.Clock
	Log       *slog.Logger
}

// Driver reads one URL. Its methods may be called concurrently, Seed only before Run.
type Driver struct {
	opts   Options
	log    *slog.Logger
	clock  clock.Clock
	client *http.Client
	// shownURL is the URL without secrets.
	shownURL string

	// Only Run uses the fields from here to mu.
	sender     feed.Sender               // its files are by shown URL; others are of URLs that were configured before
	failures   int                       // in a row
	etag       string                    // of the last decoded content; may be empty
	contentSum [sha256.Size]byte         // of that content
	content    *journaletv1.ManifestFile // the last decoded content; nil: none in this run
	classes    *manifest.Classes         // used to decode content
	parsed     []manifest.Parsed         // pods of content that are not stored yet
	valid      bool                      // content is the desired state of the source
	outage     *journaletv1.ManifestFile // emitted instead of content; nil: no outage

	mu        sync.Mutex
	lastAlive time.Time // last step of Run; zero: not running
	sendErr   error     // why a manifest could not be stored or a fact not emitted
	complete  bool      // see Complete
}

// New returns a driver. It sends nothing before Run. It panics if a required field of Options is missing: that is a
// programming error. An error says what is wrong with the URL, without quoting it.
func New(opts Options) (*Driver, error) {
	if opts.URL == "" || opts.Node == "" || opts.Store == nil || opts.Sink == nil {
		panic("url: Options needs URL, Node, Store and Sink")
	}
	at, err := Parse(opts.URL)
	if err != nil {
		return nil, err
	}
	if opts.Every <= 0 {
		opts.Every = DefaultEvery
	}
	if opts.Timeout <= 0 {
		opts.Timeout = DefaultTimeout
	}
	if opts.Prime == nil {
		opts.Prime = func(string, *corev1.Pod) {}
	}
	if opts.Classes == nil {
		opts.Classes = func() *manifest.Classes { return nil }
	}
	if opts.Transport == nil {
		opts.Transport = newTransport()
	}
	if opts.Clock == nil {
		opts.Clock = clock.Real{}
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	place := ShownURL(at)
	d := &Driver{
		opts: opts, log: opts.Log.With("source", messages.HTTPSource, "url", place), clock: opts.Clock, shownURL: place,
		client: &http.Client{Transport: opts.Transport, CheckRedirect: redirect},
	}
	// Pods of another URL stay until this one has a valid response, with all of its pods.
	d.sender = feed.Sender{
		Source: messages.HTTPSource, Store: opts.Store, Prime: opts.Prime, Sink: opts.Sink, Log: d.log, AllOrNone: true,
	}
	return d, nil
}

// Parse parses a manifest URL. The error does not quote it.
func Parse(text string) (*url.URL, error) {
	at, err := url.Parse(text)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Hostname() == "" {
		return nil, errors.New("not a URL of the form http://host/path or https://host/path")
	}
	return at, nil
}

// ShownURL returns the URL without user and query, which may contain secrets. Messages and the UIDs of its pods use it.
func ShownURL(at *url.URL) string {
	return (&url.URL{Scheme: at.Scheme, Host: at.Host, Path: at.Path, RawPath: at.RawPath}).String()
}

// FetchOnce sends one request and decodes the response, without storing it. shown is the URL without secrets.
func FetchOnce(
	ctx context.Context, at string, header http.Header, opts manifest.Options,
) (shown string, found *journaletv1.ManifestFile, err error) {
	d, err := New(Options{
		URL: at, Header: header, Node: opts.NodeName,
		Store: func(context.Context, iter.Seq2[string, []byte]) error { return nil },
		Sink:  func(context.Context, *journaletv1.ManifestsRead) error { return nil },
	})
	if err != nil {
		return "", nil, err
	}
	defer d.client.CloseIdleConnections()
	a, err := d.fetch(ctx)
	if err != nil {
		return d.shownURL, nil, err
	}
	opts.Source = manifest.SourceHTTP
	found, _ = feed.Decode(d.shownURL, d.shownURL, a.body, opts)
	return d.shownURL, found, nil
}

// Seed adds the source's state in the journal, so that only differences are emitted.
func (d *Driver) Seed(state *journaletv1.SourceState) {
	d.sender.Seed(state)
}

// SeedPending adds a fact of the journal that the source's state does not have yet.
func (d *Driver) SeedPending(fact *journaletv1.ManifestsRead) {
	d.sender.Apply(fact)
}

// Run polls the URL and emits facts until ctx ends, and returns its error. It may be called once.
func (d *Driver) Run(ctx context.Context) error {
	defer d.client.CloseIdleConnections()
	for {
		d.markAlive()
		d.read(ctx)
		wait := retryMin
		for err := d.handOver(ctx); err != nil; err = d.handOver(ctx) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			d.log.Warn("cannot store or emit manifests, retrying", "in", wait, "error", err)
			if err := clock.Wait(ctx, d.clock, wait); err != nil {
				return err
			}
			wait = min(2*wait, retryMax)
			d.markAlive()
		}
		if err := clock.Wait(ctx, d.clock, d.opts.Every); err != nil {
			return err
		}
	}
}

// handOver emits a fact if the content differs from the recorded one.
func (d *Driver) handOver(ctx context.Context) error {
	now, pods, valid := d.content, d.parsed, d.valid
	if d.outage != nil {
		now, pods, valid = d.outage, nil, false
	}
	if now == nil {
		return nil
	}
	files := []feed.File{{ManifestFile: now, Pods: pods}}
	if valid {
		for _, gone := range d.sender.RemovedExcept(d.shownURL) {
			files = append(files, feed.File{ManifestFile: gone})
		}
	}
	err := d.sender.Send(ctx, files, valid)
	if err == nil && d.outage == nil {
		d.parsed = nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sendErr, d.complete = err, d.complete || err == nil && valid
	return err
}

// read sends one request and handles the response.
func (d *Driver) read(ctx context.Context) {
	classes := d.opts.Classes()
	if classes != d.classes {
		// The content must be decoded again, so it must not be skipped by its ETag or checksum.
		d.classes, d.etag, d.contentSum = classes, "", [sha256.Size]byte{}
	}
	a, err := d.fetch(ctx)
	if ctx.Err() != nil {
		return
	}
	if err != nil {
		d.noteFailure(err)
		return
	}
	if d.failures > 0 {
		d.log.Info("the manifest URL responds again", "failures", d.failures)
	}
	d.failures, d.outage = 0, nil
	if sum := sha256.Sum256(a.body); !a.unchanged && (d.content == nil || sum != d.contentSum) {
		d.contentSum = sum
		d.content, d.parsed = feed.Decode(d.shownURL, d.shownURL, a.body, manifest.Options{
			NodeName: d.opts.Node, Source: manifest.SourceHTTP, Classes: d.classes, HasToken: d.opts.HasToken,
			UID: func(namespace, name, uid string) string {
				return d.opts.TakenOver.UID(namespace, name, uid, time.Time{}, d.sender.Added)
			},
		})
		// An empty body is valid and removes no pod, as in the kubelet.
		d.valid = !d.content.GetUnreadable() || len(a.body) == 0
	}
	if !a.unchanged {
		d.etag = a.etag
	}
}

// noteFailure handles a request without a response, or with a status other than 200.
func (d *Driver) noteFailure(err error) {
	d.failures++
	switch {
	case d.failures < loudFailures:
		d.log.Warn("cannot read pods from the URL; its pods keep running", "error", err)
	case d.failures == loudFailures:
		d.log.Warn("cannot read pods from the URL; its pods keep running. Further failures are logged with -v 2 only",
			"error", err)
	default:
		d.log.Debug("cannot read pods from the URL", "error", err, "failures", d.failures)
	}
	if d.failures < outageAfter || d.outage != nil {
		return
	}
	if before := d.sender.Files[d.shownURL]; isOutage(before) && d.content == nil {
		// It began in an earlier run, and is not emitted again.
		d.outage = before
		return
	}
	code := codeUnreachable
	var status *statusError
	if errors.As(err, &status) {
		code = codeStatus
	}
	d.outage = feed.Unreadable(d.shownURL, code, err.Error()+"; check the server: its pods keep running")
}

func isOutage(f *journaletv1.ManifestFile) bool {
	if len(f.GetProblems()) != 1 {
		return false
	}
	code := f.GetProblems()[0].GetCode()
	return code == codeUnreachable || code == codeStatus
}

func (d *Driver) markAlive() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lastAlive = d.clock.Now()
}

// Complete reports whether all of the source was read in this run, and what differed was emitted.
func (d *Driver) Complete() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.complete
}

// Healthy returns an error if a manifest cannot be stored, a fact cannot be emitted, or Run is stuck. A URL that does
// not respond is healthy, because a restart of the agent does not fix it.
func (d *Driver) Healthy() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lastAlive.IsZero() {
		return errors.New("the manifest URL was not requested yet; is the agent still starting?")
	}
	if age := d.clock.Now().Sub(d.lastAlive); age > d.opts.Every+d.opts.Timeout+stallAfter {
		return fmt.Errorf("the manifest URL was not requested for %s: the driver waits for the journal or the disk",
			age.Round(time.Second))
	}
	return d.sendErr
}
