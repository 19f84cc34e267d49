package reset

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/own"
)

const (
	// podsAtOnce bounds the pods that are removed at the same time: each costs runs of runc and of CNI plugins.
	podsAtOnce = 8
	// callTimeout bounds one call, on top of a grace period. The driver repeats a call until it ends.
	callTimeout = 2 * time.Minute
	requester   = "reset"
)

// Report is what a reset did.
type Report struct {
	// Removed counts pods that are gone from the runtime and from the disk.
	Removed int `json:"removed"`
	// Left says what stays and why, a line each.
	Left []string `json:"left"`
}

// Remove removes what Find has found. It continues after a failure, and its report has what stays. While a pod stays,
// the journal stays: a further reset needs it.
func Remove(ctx context.Context, o Options, f *Found) *Report {
	r := &remover{Options: o, report: Report{Left: []string{}}}
	for begin := 0; begin < len(f.Pods); {
		end := begin
		for end < len(f.Pods) && f.Pods[end].Priority == f.Pods[begin].Priority {
			end++
		}
		r.removeGroup(ctx, f.Pods[begin:end])
		begin = end
	}
	if len(r.report.Left) > 0 || ctx.Err() != nil {
		r.left("the files of the agent in %s: pods are left, and the journal knows them", o.RootDir)
		return &r.report
	}
	if o.Cgroups != nil {
		if err := o.Cgroups.RemoveTop(); err != nil {
			r.left("cgroups: %v", err)
		}
	}
	r.removeFiles(ctx, f)
	return &r.report
}

type remover struct {
	Options
	mu     sync.Mutex
	report Report
}

func (r *remover) left(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.Left = append(r.report.Left, fmt.Sprintf(format, args...))
}

// removeGroup removes the pods of one priority, and returns when all have ended.
func (r *remover) removeGroup(ctx context.Context, pods []*Pod) {
	var g errgroup.Group
	g.SetLimit(podsAtOnce)
	for _, p := range pods {
		g.Go(func() error {
			if err := r.removePod(ctx, p); err != nil {
				r.left("pod %s: %v", p, err)
				return nil
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			r.report.Removed++
			if r.Progress != nil {
				r.Progress("removed pod " + p.String())
			}
			return nil
		})
	}
	_ = g.Wait() // no member returns an error
}

// removePod stops a pod's containers, removes its objects from the runtime, then its volumes, logs, directory and
// cgroup. What could not be done ends it: nothing is taken from a container that runs.
func (r *remover) removePod(ctx context.Context, p *Pod) error {
	var g errgroup.Group
	for _, c := range p.containers {
		if !c.runs {
			continue
		}
		grace := min(c.grace, r.MaxGrace)
		g.Go(func() error {
			return r.call(ctx, p, grace, "stop container "+c.name, messages.NewCall(&journaletv1.StopContainer{
				Container: c.name, ContainerId: c.id, Grace: durationpb.New(grace),
			}))
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for _, id := range p.sandboxes {
		if err := r.call(ctx, p, 0, "stop its sandbox",
			messages.NewCall(&journaletv1.StopSandbox{SandboxId: id})); err != nil {
			return err
		}
	}
	for _, c := range p.containers {
		if slices.Contains(p.sandboxes, c.sandbox) {
			continue // removed with its sandbox
		}
		if err := r.call(ctx, p, 0, "remove container "+c.name,
			messages.NewCall(&journaletv1.RemoveContainer{Container: c.name, ContainerId: c.id})); err != nil {
			return err
		}
	}
	for _, id := range p.sandboxes {
		if err := r.call(ctx, p, 0, "remove its sandbox",
			messages.NewCall(&journaletv1.RemoveSandbox{SandboxId: id})); err != nil {
			return err
		}
	}
	return r.call(ctx, p, 0, "remove its files",
		messages.NewCall(&journaletv1.CleanPod{Namespace: p.Namespace, Name: p.Name, All: true}))
}

// call performs a call. Each is idempotent, and an earlier reset may have done it.
func (r *remover) call(
	ctx context.Context, p *Pod, grace time.Duration, what string, req *journaletv1.CallRequested,
) error {
	ctx, cancel := context.WithTimeout(ctx, grace+callTimeout)
	defer cancel()
	req.PodUid = p.UID
	out := r.Calls.Perform(ctx, "reset."+p.UID, requester, req, true)
	switch {
	case out == nil:
		return fmt.Errorf("%s: %w", what, ctx.Err())
	case out.GetError() != 0:
		return fmt.Errorf("%s: %s", what, out.GetMessage())
	}
	return nil
}

// removeFiles removes the agent's own files, and the root directory if that leaves it empty.
func (r *remover) removeFiles(ctx context.Context, f *Found) {
	for _, path := range f.Files {
		if err := removeAt(ctx, path); err != nil {
			r.left("%s: %v", path, err)
		}
	}
	if len(r.Outside) > 0 {
		if err := r.Removed(ctx); err != nil && r.Progress != nil {
			r.Progress("logind reads its configuration at its next start: " + err.Error())
		}
	}
	// Directories that are not empty have what others keep there, or the journal. A mount point cannot be removed.
	for _, dir := range []string{filepath.Join(r.RootDir, own.Pods), r.RootDir} {
		_ = os.Remove(dir)
	}
}

func removeAt(ctx context.Context, path string) error {
	root, err := os.OpenRoot(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	return bounded.RemoveTree(ctx, root, filepath.Base(path))
}
