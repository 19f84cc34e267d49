package simulation

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"iter"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/actors/source"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/source/feed"
	"github.com/journalet/journalet/runtime/source/manifest"
	"github.com/journalet/journalet/runtime/source/url"
)

// site is the server behind the manifest URLs: all of them serve its body.
type site struct {
	body []byte
	// changedAt is when its body changed last, in uptime.
	changedAt time.Duration
	// etags is set if its responses carry an ETag.
	etags bool
	// Until these uptimes it does not respond in time, refuses connections, responds with 502, or serves a wrong body.
	hangsUntil, downUntil, brokenUntil, wrongUntil time.Duration
	wrong                                          []byte
	// wrongAt is when it served a wrong body last, 0 for never, and rightAt when it first served the right one since then.
	wrongAt, rightAt time.Duration
}

// manifestURLs are the URLs that the agent may be started with.
var manifestURLs = []string{"http://manifests.example/a", "http://manifests.example/b"}

// emptyList is a body without pods.
const emptyList = `{"apiVersion":"v1","kind":"PodList","items":[]}`

func newSite() *site { return &site{body: []byte(emptyList)} }

// fix ends all faults of the server, and replaces a body that does not decode.
func (s *site) fix() {
	s.hangsUntil, s.downUntil, s.brokenUntil, s.wrongUntil = 0, 0, 0, 0
	if file, _ := decodeURL(manifestURLs[0], s.body); len(file.GetProblems()) > 0 {
		s.body = []byte(emptyList)
	}
}

func decodeURL(place string, body []byte) (*journaletv1.ManifestFile, []manifest.Parsed) {
	return feed.Decode(place, place, body, manifest.Options{NodeName: nodeName, Source: manifest.SourceHTTP})
}

// RoundTrip implements http.RoundTripper, on the caller's coroutine.
func (f *fetcher) RoundTrip(req *http.Request) (*http.Response, error) {
	s, p := f.run.site, f.run.clock.current
	if p.clock.uptime < s.hangsUntil {
		p.sleep(timeoutOf(req.Context()))
		return nil, context.DeadlineExceeded
	}
	p.sleep(between(f.noise, time.Millisecond, 200*time.Millisecond))
	f.readAt = p.clock.uptime
	resp, body := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Request: req}, s.body
	switch now := p.clock.uptime; {
	case now < s.downUntil:
		return nil, syscall.ECONNREFUSED
	case now < s.brokenUntil:
		resp.StatusCode = http.StatusBadGateway
	case now < s.wrongUntil:
		body, s.wrongAt = s.wrong, now
	case s.rightAt <= max(s.wrongAt, s.changedAt):
		s.rightAt = now
	}
	if s.etags {
		etag := fmt.Sprintf("%x", sha256.Sum256(body))
		resp.Header.Set("ETag", etag)
		if req.Header.Get("If-None-Match") == etag && resp.StatusCode == http.StatusOK {
			resp.StatusCode, body = http.StatusNotModified, nil
		}
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

// fetcher runs runtime/source/url on a coroutine.
type fetcher struct {
	*url.Driver
	run   *run
	noise *rand.Rand
	// readAt is when the server answered last, in uptime.
	readAt time.Duration
}

func newFetcher(r *run) *fetcher {
	f := &fetcher{run: r, noise: stream(r.seed, "url", r.name())}
	var err error
	if f.Driver, err = url.New(url.Options{
		URL: r.config.url, Node: nodeName, Transport: f, Clock: driverClock{r.clock, r}, Prime: r.manifests.prime,
		Store: func(_ context.Context, manifests iter.Seq2[string, []byte]) error {
			for digest, canonical := range manifests {
				r.store(r.clock.current, f.noise)
				r.manifests.canonical[digest] = canonical
			}
			return nil
		},
		Sink: func(_ context.Context, m *journaletv1.ManifestsRead) error {
			r.judge.readAt[m] = f.readAt
			return r.emit(messages.Source(messages.HTTPSource), m)
		},
	}); err != nil {
		panic(err) // one of manifestURLs
	}
	return f
}

// fromURL returns the digests of the pods that the configured URL serves, by UID.
func (s *sim) fromURL() map[string]string {
	all := map[string]string{}
	if s.config.url != "" {
		file, _ := decodeURL(s.config.url, s.site.body)
		for _, p := range file.GetPods() {
			all[p.GetUid()] = p.GetDigest()
		}
	}
	return all
}

// noRemovalInDoubt: a read that found nothing but problems removes no pod.
func (j *judge) noRemovalInDoubt(rec *journaletv1.Record, u *journaletv1.PodUpdated) {
	cause := int(rec.GetStep().GetCause())
	if u.GetOperation() != journaletv1.PodOperation_POD_OPERATION_REMOVE || cause < 1 ||
		cause > len(j.sim.journal.stored) {
		return
	}
	changed := j.sim.journal.stored[cause-1].GetFact().GetManifestsRead().GetChanged()
	if len(changed) > 0 && !slices.ContainsFunc(changed, func(f *journaletv1.ManifestFile) bool {
		return len(f.GetPods()) > 0 || len(f.GetProblems()) == 0 && !f.GetUnreadable()
	}) {
		j.broken(unreadableKeeps, u.GetPod().GetUid(), "%s is removed because of %v", u.GetPod().GetName(), changed)
	}
}

// judgeSources compares the sources' states with files and URL, and returns the digests of the desired pods by UID. If
// both sources name a UID, the source that has it counts.
func (s *sim) judgeSources(say func(uid, format string, args ...any)) map[string]string {
	desired := s.fromFiles()
	for _, name := range []string{messages.FileSource, messages.HTTPSource, messages.APISource} {
		says := s.fromFiles()
		switch name {
		case messages.HTTPSource:
			says = s.fromURL()
		case messages.APISource:
			says = s.fromAPI()
		}
		a, _ := s.agent.cells.Decider(messages.Source(name)).(*source.Actor)
		if a == nil {
			if len(says) > 0 {
				say("", "source %s names %d pods and has no actor", name, len(says))
			}
			continue
		}
		for _, uid := range slices.Sorted(maps.Keys(a.Source().GetPods())) {
			p := a.Source().GetPods()[uid]
			if p.GetDesired() != (says[uid] == p.GetPod().GetDigest()) {
				say(uid, "%s: in source %s desired is %t for %s, and the source has %s; %v", s.manifests.names[uid], name,
					p.GetDesired(), p.GetPod().GetDigest(), says[uid], a.Source().GetFiles())
			}
		}
		for _, uid := range slices.Sorted(maps.Keys(says)) {
			p := a.Source().GetPods()[uid]
			if p == nil {
				say(uid, "%s: source %s does not have it", s.manifests.names[uid], name)
			}
			if desired[uid] == "" || s.judge.history(uid).source == name {
				desired[uid] = says[uid]
			}
		}
	}
	return desired
}

// waitsForNamesake reports whether a pod waits for the end of a desired pod of the same name, of the other source.
func (s *sim) waitsForNamesake(uid string, v *corev1.Pod, desired map[string]string) bool {
	if m := s.manifests.byDigest[desired[uid]]; v.Status.Phase == corev1.PodPending {
		for other := range desired {
			if other != uid && s.judge.history(other).name == m.Namespace+"/"+m.Name {
				return true
			}
		}
	}
	return false
}

// urlWorkload plans what the manifest URL serves: lists of pods, some with names or UIDs that files have too.
func (p *Plan) urlWorkload(r *rand.Rand) {
	if !chance(r, 3) {
		return
	}
	p.config.urls, p.config.url, p.config.etags = true, manifestURLs[0], chance(r, 2)
	pods := 1 + r.IntN(4)
	serve := func(at time.Duration) {
		var items []string
		for i := range pods {
			if chance(r, 4) {
				continue
			}
			name, uid := fmt.Sprintf("h%d", i), ""
			switch {
			case chance(r, 6):
				name = fmt.Sprintf("p%d", i) // the name of a file's pod
			case chance(r, 3):
				uid = fmt.Sprintf("uid-%d", 3*i) // the UID of a file's pod
			case chance(r, 2):
				uid = fmt.Sprintf("uid-h%d", i)
			}
			body := manifestOf(r, name, uid)
			if file, _ := decodeURL(manifestURLs[0], body); len(file.GetProblems()) > 0 && !chance(r, 10) {
				continue // one invalid pod makes the whole list invalid
			}
			items = append(items, string(body))
		}
		p.Ops = append(p.Ops, Op{
			At: at, Kind: "serve",
			body: []byte(`{"apiVersion":"v1","kind":"PodList","items":[` + strings.Join(items, ",") + `]}`),
		})
	}
	serve(between(r, 0, time.Minute))
	for range int(p.end/time.Minute) / 2 {
		serve(between(r, 20*time.Second, p.end))
	}
}

// serve replaces the body.
func (s *sim) serve(body []byte) { s.site.body, s.site.changedAt = body, s.clock.uptime }

// urlFails makes the manifest URL fail for a while.
func (s *sim) urlFails(o Op) {
	until := s.clock.uptime + o.lasts
	switch o.pick % 4 {
	case 0:
		s.site.downUntil = until
	case 1:
		s.site.hangsUntil = until
	case 2:
		s.site.brokenUntil = until
	default:
		s.site.wrongUntil = until
		s.site.wrong = [][]byte{nil, []byte("{"), []byte("<html>welcome</html>"),
			[]byte(`{"apiVersion":"v1","kind":"Pod","metadata":{}}`)}[o.pick/4%4]
	}
}

// otherURL restarts the agent with another URL, or none.
func (s *sim) otherURL(o Op) {
	if !s.config.urls {
		return
	}
	s.config.url = slices.Concat([]string{""}, manifestURLs, manifestURLs)[o.pick%5]
	s.restartAgent(o)
}

// fromAPI returns the digests of the pods that are bound to this node, by UID. Of a pod that has ended nobody reads the
// manifest any more (ADR 074): the source may have any.
func (s *sim) fromAPI() map[string]string {
	all := map[string]string{}
	if s.api == nil {
		return all
	}
	for _, n := range s.api.names(ofNode) {
		p := s.api.pods[n]
		if kept := s.sourcePod(string(p.UID)).GetPod().GetDigest(); hasEnded(p) && kept != "" {
			all[string(p.UID)] = kept
			continue
		}
		if parsed, err := manifest.FromAPI(p); err == nil {
			all[string(p.UID)] = parsed.Digest
		}
	}
	return all
}

// sourcePod returns what the source of the API server has of a pod; nil for nothing.
func (s *sim) sourcePod(uid string) *journaletv1.SourcePod {
	if a, ok := s.agent.cells.Decider(messages.Source(messages.APISource)).(*source.Actor); ok {
		return a.Source().GetPods()[uid]
	}
	return nil
}
