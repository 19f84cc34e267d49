package url

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cri"
	"github.com/journalet/journalet/runtime/source/feed"
	"github.com/journalet/journalet/runtime/source/manifest"
)

const (
	// DefaultEvery is the pause between two requests (kubelet httpCheckFrequency: 20 s).
	DefaultEvery = 20 * time.Second
	// DefaultTimeout bounds a request with all its redirects and its body, as the kubelet's.
	DefaultTimeout = 10 * time.Second
	// outageAfter is how many requests in a row fail before the journal is told: one that fails now and then is no news.
	outageAfter = 3
	// loudFailures is how many failures in a row are logged for everybody, as in the kubelet.
	loudFailures = 3
	// retryMin and retryMax bound the doubling wait after a manifest could not be stored or a fact not handed over.
	retryMin = 100 * time.Millisecond
	retryMax = 10 * time.Second
	// stallAfter is how long beyond a pause and a request the driver may be silent and still count as healthy.
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
	// Classes gives the runtime classes, as for package file. May be nil.
	Classes func() *manifest.RuntimeClasses
	// Every defaults to DefaultEvery, Timeout to DefaultTimeout.
	Every, Timeout time.Duration
	// Store, Prime and Sink are those of package file.
	Store func(ctx context.Context, digest string, canonical []byte) error
	Prime func(digest string, pod *corev1.Pod)
	Sink  func(context.Context, *journaletv1.ManifestsRead) error
	// Transport makes the requests. Default: one of the driver's own, with bounds.
	Transport http.RoundTripper
	Clock     cri.Clock
	Log       *slog.Logger
}

// Driver reads one URL. Its methods may be called concurrently, Seed only before Run.
type Driver struct {
	opts   Options
	log    *slog.Logger
	clock  cri.Clock
	client *http.Client
	// shownURL is the URL as it may be shown.
	shownURL string

	// Run's alone from here to mu.
	recorded   feed.Recorded             // by place: another one is of a URL that was configured before
	firstRead  bool                      // this run's first reading has not been told as a whole
	failures   int                       // in a row
	etag       string                    // of the content that was decoded last; empty: none
	contentSum [sha256.Size]byte         // of that content
	content    *journaletv1.ManifestFile // what it holds; nil: nothing was read in this run
	classes    *manifest.RuntimeClasses  // that it was decoded with
	parsed     []manifest.Parsed         // its pods, as long as they were not handed over
	valid      bool                      // it says what is wanted
	outage     *journaletv1.ManifestFile // told, or to be told, instead of content; nil: none

	mu        sync.Mutex
	lastAlive time.Time // last turn of Run; zero: not running
	sendErr   error     // why something could not be stored or handed over
}

// New makes a driver; nothing is asked for before Run. It panics if a field of Options that must be set is not: that is a
// mistake of the program. An error says what is wrong with the URL, without showing it.
func New(opts Options) (*Driver, error) {
	if opts.URL == "" || opts.Node == "" || opts.Store == nil || opts.Sink == nil {
		panic("fetch: Options needs URL, Node, Store and Sink")
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
		opts.Classes = func() *manifest.RuntimeClasses { return nil }
	}
	if opts.Transport == nil {
		opts.Transport = newTransport()
	}
	if opts.Clock == nil {
		opts.Clock = cri.RealClock{}
	}
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	place := ShownURL(at)
	return &Driver{
		opts: opts, log: opts.Log.With("source", messages.HTTPSource, "url", place), clock: opts.Clock, shownURL: place,
		client: &http.Client{Transport: opts.Transport, CheckRedirect: redirect}, firstRead: true,
	}, nil
}

// Parse reads a URL that manifests may come from. The error does not quote it.
func Parse(text string) (*url.URL, error) {
	at, err := url.Parse(text)
	if err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Hostname() == "" {
		return nil, errors.New("it is no URL of the form http://host/path or https://host/path")
	}
	return at, nil
}

// ShownURL is what may be shown of a URL, and what the UIDs of its pods are made of: neither user nor query, which may hold
// secrets.
func ShownURL(at *url.URL) string {
	return (&url.URL{Scheme: at.Scheme, Host: at.Host, Path: at.Path, RawPath: at.RawPath}).String()
}

// FetchOnce asks once and decodes the answer; nothing is kept. place is the URL as it may be shown.
func FetchOnce(ctx context.Context, at string, header http.Header, opts manifest.Options) (place string, found *journaletv1.ManifestFile, err error) {
	d, err := New(Options{
		URL: at, Header: header, Node: opts.NodeName,
		Store: func(context.Context, string, []byte) error { return nil },
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

// Seed gives the source's state as the journal has it, so that only what differs from it is handed over.
func (d *Driver) Seed(state *journaletv1.SourceState) {
	d.recorded.Seed(state)
}

// SeedPending adds a fact that the journal holds and the source's state does not have yet.
func (d *Driver) SeedPending(fact *journaletv1.ManifestsRead) {
	d.recorded.Apply(fact)
}

// Run asks and hands over until ctx ends, whose error it returns. It may be called once.
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
			d.log.Warn("manifests not handed over, trying again", "in", wait, "error", err)
			if err := cri.Wait(ctx, d.clock, wait); err != nil {
				return err
			}
			wait = min(2*wait, retryMax)
			d.markAlive()
		}
		if err := cri.Wait(ctx, d.clock, d.opts.Every); err != nil {
			return err
		}
	}
}

// read asks once and takes in the answer.
func (d *Driver) read(ctx context.Context) {
	classes := d.opts.Classes()
	if classes != d.classes {
		// The whole content is needed, to be decoded with them.
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
		d.log.Info("the manifest URL is answered again", "failures", d.failures)
	}
	d.failures, d.outage = 0, nil
	if sum := sha256.Sum256(a.body); !a.unchanged && (d.content == nil || sum != d.contentSum) {
		d.contentSum = sum
		d.content, d.parsed = feed.Decode(d.shownURL, d.shownURL, a.body, manifest.Options{
			NodeName: d.opts.Node, Source: manifest.SourceHTTP, Classes: d.classes,
		})
		// Nothing at all takes nothing away, but is an answer, as for the kubelet.
		d.valid = !d.content.GetUnreadable() || len(a.body) == 0
	}
	if !a.unchanged {
		d.etag = a.etag
	}
}

// noteFailure takes in that there was no answer, or not one with manifests.
func (d *Driver) noteFailure(err error) {
	d.failures++
	switch {
	case d.failures < loudFailures:
		d.log.Warn("pods not read from the URL; those that it named go on", "error", err)
	case d.failures == loudFailures:
		d.log.Warn("pods not read from the URL; those that it named go on. Further failures are logged with -v 2 only", "error", err)
	default:
		d.log.Debug("pods not read from the URL", "error", err, "failures", d.failures)
	}
	if d.failures < outageAfter || d.outage != nil {
		return
	}
	if before := d.recorded.Files[d.shownURL]; isOutage(before) && d.content == nil {
		// It began in an earlier run, and is not told again.
		d.outage = before
		return
	}
	code := codeUnreachable
	var status *statusError
	if errors.As(err, &status) {
		code = codeStatus
	}
	d.outage = feed.Unreadable(d.shownURL, code, err.Error()+"; see to it that the server gives manifests again: what they were goes on")
}

func isOutage(f *journaletv1.ManifestFile) bool {
	return len(f.GetProblems()) == 1 && (f.GetProblems()[0].GetCode() == codeUnreachable || f.GetProblems()[0].GetCode() == codeStatus)
}

func (d *Driver) markAlive() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lastAlive = d.clock.Now()
}

// Healthy returns why the source is not served as it should be: something cannot be stored or handed over, or Run stands
// still. A URL that is not answered is healthy: no restart of the agent mends it.
func (d *Driver) Healthy() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lastAlive.IsZero() {
		return errors.New("the manifest URL was not asked for yet; is the agent still starting?")
	}
	if age := d.clock.Now().Sub(d.lastAlive); age > d.opts.Every+d.opts.Timeout+stallAfter {
		return fmt.Errorf("the manifest URL was not asked for since %s: what it waits for is the journal or the disk", age.Round(time.Second))
	}
	return d.sendErr
}
