package agent

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"time"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/cluster/certificate"
	"github.com/journalet/journalet/runtime/cluster/client"
	"github.com/journalet/journalet/runtime/config"
	"github.com/journalet/journalet/runtime/cri/pleg"
	"github.com/journalet/journalet/runtime/kubeletstate"
	"github.com/journalet/journalet/runtime/pod/volume"
	"github.com/journalet/journalet/runtime/source/api"
	"github.com/journalet/journalet/runtime/takeover"
	"github.com/journalet/journalet/runtime/takeover/preview"
)

// previewSourcesWait bounds how long a preview reads the sources: the API server or a URL may not answer.
const previewSourcesWait = 15 * time.Second

// Preview says what a start of the agent would do with the pods that a kubelet runs in the root directory. It changes
// nothing, and the kubelet may run. A source that cannot be read is one of the report's Unread; an error means that
// nothing can be said.
func Preview(ctx context.Context, cfg *config.Config, log *slog.Logger) (*preview.Report, error) {
	if volume.Known(cfg.RootDir) {
		return nil, fmt.Errorf("an agent has run in %s since the kubelet: what it runs is in its journal; see "+
			"`journalet pods`", cfg.RootDir)
	}
	a := &agent{cfg: cfg, log: log}
	defer func() { _ = a.close() }()
	p, _, err := a.preview(ctx, a.sources(), kubeletstate.Read(cfg.RootDir))
	if err != nil {
		return nil, err
	}
	return p.Report(), nil
}

// Handback says what a kubelet would do with the pods that the agent runs in a kubelet's root directory. It changes
// nothing, and the agent may run. Pods of the API server are known from what runs.
func Handback(ctx context.Context, cfg *config.Config, log *slog.Logger) (*preview.Report, error) {
	a := &agent{cfg: cfg, log: log}
	defer func() { _ = a.close() }()
	static := slices.DeleteFunc(a.sources(), func(source string) bool { return source == messages.APISource })
	p, pods, err := a.preview(ctx, static, nil)
	if err != nil {
		return nil, err
	}
	none := func(string) bool { return false }
	exclusive, err := volume.New(volume.Options{RootDir: cfg.RootDir}).FindResources(none)
	if err != nil {
		return nil, fmt.Errorf("read the pods' exclusive resources: %w", err)
	}
	return p.Handback(pods.Given, exclusive), nil
}

// preview folds what the runtime and some sources have.
func (a *agent) preview(
	ctx context.Context, sources []string, left *journaletv1.KubeletState,
) (p *preview.Preview, pods *takeover.Static, err error) {
	switch {
	case simulated(a.cfg):
		return nil, nil, errors.New("no kubelet uses the simulated runtime: set --container-runtime-endpoint to the " +
			"kubelet's")
	case !kubeletstate.In(a.cfg.RootDir):
		return nil, nil, fmt.Errorf("%s is not the root directory of a kubelet: it has no file %s; set --root-dir to the "+
			"kubelet's", a.cfg.RootDir, kubeletstate.CPUFile)
	}
	if a.facts, err = a.cfg.NodeFacts(); err != nil {
		return nil, nil, err
	}
	if err := a.connect(); err != nil {
		return nil, nil, err
	}
	if pods, err = a.kubeletsPods(); err != nil {
		return nil, nil, err
	}
	start := &journaletv1.AgentStarted{
		Epoch: 1, Version: Version, BootId: a.facts.BootID, AgentId: a.id(), Config: a.recordedConfig(), KubeletState: left,
	}
	start.Config.Sources = sources
	if start.FoundUserNamespaces, err = volume.FindUserNamespaces(a.cfg.RootDir); err != nil {
		a.log.Warn("cannot read which ids pods have", "error", err)
	}
	if p, err = preview.New(time.Now(), start); err != nil {
		return nil, nil, err
	}
	// The runtime first: a pod that is read before it was inspected requests what it has.
	if err := a.previewRuntime(ctx, p); err != nil {
		return nil, nil, err
	}
	return p, pods, a.previewSources(ctx, p, pods.Unnoted(), slices.Contains(sources, messages.APISource))
}

// previewSources reads the sources, each until all of it was read or the time is over.
func (a *agent) previewSources(ctx context.Context, p *preview.Preview, taken *takeover.Static, withAPI bool) error {
	ctx, cancel := context.WithTimeout(ctx, previewSourcesWait)
	defer cancel()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	in := intake{
		taken: taken,
		store: func(context.Context, iter.Seq2[string, []byte]) error { return nil },
		prime: p.Prime,
		fact: func(_ context.Context, about messages.Ref, e *journaletv1.Event) error {
			if err := p.Fact(about, e); err != nil {
				end(err)
			} else if p.AllRead() {
				end(nil)
			}
			return nil
		},
	}
	files, at, err := a.newSources(in)
	if err != nil {
		return err
	}
	runs := []func(context.Context) error{files.Run}
	if at != nil {
		runs = append(runs, at.Run)
	}
	if withAPI {
		pods, err := a.previewPods(in)
		if err != nil {
			return err
		}
		runs = append(runs, pods.Run)
	}
	done := make(chan struct{})
	for _, run := range runs {
		go func() {
			_ = run(ctx) // it ends with ctx
			done <- struct{}{}
		}()
	}
	for range runs {
		<-done
	}
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}

// previewPods creates the driver of the pods of the API server, with the credentials of the kubeconfig.
func (a *agent) previewPods(in intake) (*api.Driver, error) {
	begin, err := certificate.Begin(a.cfg.KubeconfigPath(), "", a.facts.NodeName, false, time.Now())
	if err != nil {
		return nil, err
	}
	if begin.Problem != nil {
		a.log.Warn("the API server may refuse this node", "error", begin.Problem)
	}
	contact := client.NewContact(func(context.Context, *journaletv1.ApiServerContact) error { return nil }, time.Now)
	c, err := client.New(a.clientOptions(begin.Config, contact))
	if err != nil {
		return nil, err
	}
	return a.newAPISource(c, in, api.Options{Allocated: a.readAllocated().Pod})
}

// previewRuntime reads what the runtime has.
func (a *agent) previewRuntime(ctx context.Context, p *preview.Preview) error {
	watch := pleg.New(a.plegOptions(func(_ context.Context, about messages.Ref, e *journaletv1.Event) error {
		return p.Fact(about, e)
	}))
	if err := watch.Relist(ctx); err != nil {
		return fmt.Errorf("read what the container runtime %s has: %w", a.cfg.ContainerRuntimeEndpoint, err)
	}
	for inspect := watch.Next(false); inspect != nil; inspect = watch.Next(false) {
		inspect(ctx)
	}
	if !watch.Current() {
		return fmt.Errorf("the container runtime %s does not show each pod; is it busy? Try again",
			a.cfg.ContainerRuntimeEndpoint)
	}
	return nil
}
