package agent

import (
	"context"
	"iter"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/kubeletstate"
	"github.com/journalet/journalet/runtime/source/file"
	"github.com/journalet/journalet/runtime/source/runtimeclass"
	"github.com/journalet/journalet/runtime/source/url"
	"github.com/journalet/journalet/runtime/takeover"
)

// sources returns the names of the configured sources, sorted.
func (a *agent) sources() []string {
	var all []string // sorted
	if a.cfg.InCluster() {
		all = append(all, messages.APISource)
	}
	all = append(all, messages.FileSource)
	if a.cfg.StaticPodURL != "" {
		all = append(all, messages.HTTPSource)
	}
	return all
}

// intake is where the drivers of sources put what they read.
type intake struct {
	store func(ctx context.Context, manifests iter.Seq2[string, []byte]) error
	prime func(digest string, pod *corev1.Pod)
	fact  func(ctx context.Context, about messages.Ref, e *journaletv1.Event) error
	// taken are the static pods of a kubelet; nil: there was none.
	taken *takeover.Static
}

// sink adds what a source has read.
func (in intake) sink(ctx context.Context, m *journaletv1.ManifestsRead) error {
	return in.fact(ctx, messages.Source(m.GetSource()), messages.NewEvent(m))
}

// intake returns the agent's intake.
func (a *agent) intake() intake {
	return intake{store: a.bus.Manifests().PutAll, prime: a.manifests.Add, fact: a.host.Fact}
}

// newSources creates the drivers of the sources on this node; the driver of a URL is nil without one.
func (a *agent) newSources(in intake) (files *file.Driver, at *url.Driver, err error) {
	known := runtimeclass.New(a.cfg.RuntimeClassPath, a.log, a.cfg.StaticPodPath, a.cfg.ObjectsPath).Current
	files = file.New(file.Options{
		Path: a.cfg.StaticPodPath, Node: a.facts.NodeName, Source: messages.FileSource, Reread: a.cfg.FileCheckFrequency,
		Classes: known, HasToken: a.hasToken, TakenOver: in.taken,
		Store: in.store, Prime: in.prime, Log: a.log, Sink: in.sink,
	})
	if a.cfg.StaticPodURL != "" {
		at, err = url.New(url.Options{
			URL: a.cfg.StaticPodURL, Header: a.cfg.URLHeader(), Node: a.facts.NodeName, Every: a.cfg.HTTPCheckFrequency,
			Classes: known, HasToken: a.hasToken, TakenOver: in.taken,
			Store: in.store, Prime: in.prime, Log: a.log, Sink: in.sink,
		})
	}
	return files, at, err
}

// kubeletsPods returns the static pods of a kubelet that had the root directory; nil if there was none.
func (a *agent) kubeletsPods() (*takeover.Static, error) {
	if !kubeletstate.In(a.cfg.RootDir) {
		return nil, nil
	}
	return takeover.Read(a.cfg.RootDir, a.cfg.PodLogDir, a.log)
}
