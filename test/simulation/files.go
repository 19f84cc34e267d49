package simulation

import (
	"context"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/fold"
	"github.com/journalet/journalet/runtime/source/feed"
	"github.com/journalet/journalet/runtime/source/file"
	"github.com/journalet/journalet/runtime/source/manifest"
)

// library holds every manifest that was ever stored, by digest.
type library struct {
	byDigest map[string]*corev1.Pod
	// canonical is what is stored of each, for a recorded journal.
	canonical map[string][]byte
	// names are the pods' names by UID, for reports.
	names map[string]string
}

func newLibrary() *library {
	return &library{byDigest: map[string]*corev1.Pod{}, canonical: map[string][]byte{}, names: map[string]string{}}
}

func (l *library) get(digest string) (*corev1.Pod, error) {
	if m := l.byDigest[digest]; m != nil {
		return m, nil
	}
	return nil, failedCall("no such manifest: " + digest)
}

// directory is the directory of manifests.
type directory struct {
	files map[string]*journaletv1.ManifestFile
	// bodies are the files' contents.
	bodies map[string][]byte
	// changed is called at each write; the reader may lose it. changedAt is the uptime of the last write.
	changed   func()
	clock     *virtualTime
	changedAt time.Duration
}

func newDirectory(c *virtualTime) *directory {
	return &directory{clock: c, files: map[string]*journaletv1.ManifestFile{}, bodies: map[string][]byte{},
		changed: func() {}}
}

// put stores manifests.
func (l *library) put(pods []manifest.Parsed) {
	for _, p := range pods {
		l.canonical[p.Digest] = p.Canonical
		l.prime(p.Digest, p.Pod)
	}
}

func (l *library) prime(digest string, pod *corev1.Pod) {
	l.byDigest[digest], l.names[string(pod.UID)] = pod, pod.Name
}

// write writes a file. A body without pods is a file that cannot be read.
func (f *directory) write(l *library, path string, body []byte) {
	m, pods := feed.Decode(path, "/pods/"+path, body, manifest.Options{NodeName: nodeName})
	l.put(pods)
	f.files[path], f.bodies[path], f.changedAt = m, body, f.clock.uptime
	f.changed()
}

func (f *directory) remove(path string) {
	delete(f.files, path)
	delete(f.bodies, path)
	f.changedAt = f.clock.uptime
	f.changed()
}

func (f *directory) names() []string { return slices.Sorted(maps.Keys(f.files)) }

// reader models runtime/source/file: it reads the directory on a notification and every 20 s, and records what
// differs from what it recorded before.
type reader struct {
	run   *run
	noise *rand.Rand
	feed.Sender
	p *proc
	// readAt is when it read the directory last, in uptime.
	readAt time.Duration
}

// Name implements drivers.Driver.
func (*reader) Name() string { return "file source" }

// Recover takes what was recorded of the source.
func (f *reader) Recover(r fold.Recovered) { feed.Recover(r, messages.FileSource, f) }

// SeedPending adds a fact that the journal holds and the source's state does not hold yet.
func (f *reader) SeedPending(fact *journaletv1.ManifestsRead) { f.Apply(fact) }

func newReader(r *run) *reader {
	f := &reader{run: r, noise: stream(r.seed, "files", r.name())}
	f.Sender = feed.Sender{
		Source: messages.FileSource, Log: slog.New(slog.DiscardHandler),
		Sink: func(_ context.Context, m *journaletv1.ManifestsRead) error {
			r.judge.readAt[m] = f.readAt
			r.store(r.clock.current, f.noise) // manifests are on disk before a fact names them
			return r.emit(messages.Source(messages.FileSource), m)
		},
	}
	return f
}

// notify models inotify. Some notifications are lost; the periodic reread finds those changes.
func (f *reader) notify() {
	if f.p != nil && !chance(f.noise, 8) {
		p := f.p
		f.run.clock.after(f.run.scope, between(f.noise, 10*time.Millisecond, 200*time.Millisecond), p.interrupt)
	}
}

func (f *reader) loop(p *proc) {
	f.p = p
	for {
		p.sleep(between(f.noise, time.Millisecond, 5*time.Millisecond))
		f.read()
		p.sleep(file.DefaultReread)
	}
}

// store takes the time of writing manifests to disk, which precedes the fact that names them.
func (r *run) store(p *proc, noise *rand.Rand) {
	p.sleep(between(noise, time.Millisecond, 10*time.Millisecond) + max(0, r.journal.stalledUntil-r.clock.uptime))
}

func (f *reader) read() {
	f.readAt = f.run.clock.uptime
	paths := map[string]bool{}
	for path := range f.Files {
		paths[path] = true
	}
	for path := range f.run.directory.files {
		paths[path] = true
	}
	var files []feed.File
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		now := f.run.directory.files[path]
		if now == nil {
			now = &journaletv1.ManifestFile{Path: path}
		}
		files = append(files, feed.File{ManifestFile: now})
	}
	_ = f.Send(context.Background(), files, true) // the sink does not fail
}
