package agent

import (
	"context"

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
	if a.cluster != nil {
		all = append(all, messages.APISource)
	}
	all = append(all, messages.FileSource)
	if a.cfg.StaticPodURL != "" {
		all = append(all, messages.HTTPSource)
	}
	return all
}

// newSources creates the drivers of the sources.
func (a *agent) newSources() (err error) {
	sink := func(ctx context.Context, m *journaletv1.ManifestsRead) error {
		e := messages.NewEvent(m)
		return a.host.Fact(ctx, messages.Source(m.GetSource()), e)
	}
	var taken *takeover.Static
	if kubeletstate.In(a.cfg.RootDir) {
		if taken, err = takeover.Read(a.cfg.RootDir, a.cfg.PodLogDir, a.log); err != nil {
			return err
		}
	}
	known := runtimeclass.New(a.cfg.RuntimeClassPath, a.log, a.cfg.StaticPodPath, a.cfg.ObjectsPath).Current
	a.files = file.New(file.Options{
		Path: a.cfg.StaticPodPath, Node: a.facts.NodeName, Source: messages.FileSource, Reread: a.cfg.FileCheckFrequency,
		Classes: known, HasToken: a.hasToken, TakenOver: taken,
		Store: a.bus.Manifests().PutAll, Prime: a.manifests.Add, Log: a.log, Sink: sink,
	})
	if a.cfg.StaticPodURL != "" {
		a.url, err = url.New(url.Options{
			URL: a.cfg.StaticPodURL, Header: a.cfg.URLHeader(), Node: a.facts.NodeName, Every: a.cfg.HTTPCheckFrequency,
			Classes: known, HasToken: a.hasToken, TakenOver: taken,
			Store: a.bus.Manifests().PutAll, Prime: a.manifests.Add, Log: a.log, Sink: sink,
		})
	}
	return err
}
