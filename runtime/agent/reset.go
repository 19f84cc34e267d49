package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/calls"
	"github.com/journalet/journalet/runtime/config"
	"github.com/journalet/journalet/runtime/cri"
	"github.com/journalet/journalet/runtime/cri/cgroup"
	"github.com/journalet/journalet/runtime/history/open"
	"github.com/journalet/journalet/runtime/history/replay"
	"github.com/journalet/journalet/runtime/manifests"
	"github.com/journalet/journalet/runtime/pod/volume"
	"github.com/journalet/journalet/runtime/preflight"
	"github.com/journalet/journalet/runtime/reset"
	"github.com/journalet/journalet/runtime/shutdown"
)

// ResetOptions returns what `journalet reset` needs of an agent with this configuration, and the node's name. The agent
// must not run. Call closed at the end.
func ResetOptions(cfg *config.Config, log *slog.Logger) (o reset.Options, node string, closed func(), err error) {
	a := &agent{cfg: cfg, log: log}
	closed = func() {
		for _, f := range a.closers {
			f()
		}
	}
	if a.facts, err = cfg.NodeFacts(); err != nil {
		return o, "", closed, err
	}
	if err := preflight.CheckRoot(cfg.RootDir); err != nil {
		return o, "", closed, err
	}
	if simulated(cfg) {
		cfg.SimulatedPaths()
	}
	volumes := volume.New(volume.Options{
		RootDir: cfg.RootDir, PodLogDir: cfg.PodLogDir, ContainerLogDir: cfg.ContainerLogDir,
	})
	o = reset.Options{
		Owner: a.owner(), RootDir: cfg.RootDir, Socket: cfg.Socket(), Volumes: volumes, Recorded: a.recordedPods,
	}
	if simulated(cfg) {
		// Of a simulated runtime only files are left: no call of a pod reaches it.
		o.Calls = filesOnly{volumes}
		return o, a.facts.NodeName, closed, nil
	}
	if err := a.connect(); err != nil {
		return o, "", closed, err
	}
	// Without Options.All: cgroups that cannot be written prevent no reset.
	tree, err := cgroup.New(cgroup.Options{Root: cfg.CgroupRoot, Log: log})
	if err != nil {
		return o, "", closed, err
	}
	dropIn, err := shutdown.OwnDropIn("", a.absoluteRoot())
	if err != nil {
		return o, "", closed, err
	}
	if dropIn != "" {
		o.Outside = []string{dropIn}
		o.Removed = func(ctx context.Context) error { return shutdown.Reread(ctx, shutdown.Dial) }
	}
	o.Runtime = runtimeapi.NewRuntimeServiceClient(a.conn)
	o.Calls = calls.NewWorks(calls.WorksOptions{
		Manifest: func(context.Context, string) (*corev1.Pod, error) { return nil, errors.New("a reset starts nothing") },
		Log:      log,
	}, cri.New(cri.Options{
		Conn: a.conn, Node: a.facts.NodeName, Owner: a.owner(), Hash: pod.ContainerHash,
		PodLogDir: cfg.PodLogDir, ContainerLogDir: cfg.ContainerLogDir, Volumes: volumes,
		PodCgroups: tree, CgroupDriver: cfg.CgroupDriver, Resources: cri.Resources{CgroupV2: cgroup.V2()},
		Timeouts: cri.Timeouts{Call: cfg.RuntimeRequestTimeout}, Log: log,
	}))
	if _, kubelet := preflight.KubeletRunning(cfg.ContainerRuntimeEndpoint); !kubelet {
		o.Cgroups = tree
	}
	return o, a.facts.NodeName, closed, nil
}

// recordedPods returns the pods of the journal on disk, by UID.
func (a *agent) recordedPods(ctx context.Context) (map[string]reset.Recorded, error) {
	j, err := open.Path(ctx, filepath.Join(a.cfg.RootDir, open.BusDir))
	if errors.Is(err, open.ErrNoJournal) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	states, err := replay.StatesAt(ctx, j, 0, replay.Options{})
	if err != nil {
		return nil, fmt.Errorf("fold the journal: %w", err)
	}
	pods := map[string]reset.Recorded{}
	manifests := manifests.New(j.Manifest)
	for _, s := range states {
		state, ok := s.Message.(*journaletv1.PodState)
		if !ok {
			continue
		}
		p := reset.Recorded{Namespace: state.GetPod().GetNamespace(), Name: state.GetPod().GetName()}
		m, err := manifests.Get(ctx, state.GetPod().GetDigest())
		if err == nil && m.Spec.Priority != nil {
			p.Priority = *m.Spec.Priority
		}
		pods[s.Actor.ID] = p
	}
	return pods, nil
}

// filesOnly performs what a call does in a pod's directories.
type filesOnly struct{ volumes *volume.Driver }

// Perform implements reset.Calls.
func (f filesOnly) Perform(
	ctx context.Context, intent, requester string, req *journaletv1.CallRequested, _ bool,
) *journaletv1.CallFinished {
	out := &journaletv1.CallFinished{IntentId: intent, Requester: requester}
	k := req.GetCleanPod()
	if k == nil {
		return out
	}
	outcomes, err := f.volumes.Clean(ctx, req.GetPodUid(), k.GetNamespace(), k.GetName())
	if i := slices.IndexFunc(outcomes, func(o *journaletv1.VolumeOutcome) bool { return o.GetMessage() != "" }); i >= 0 {
		err = errors.Join(err, errors.New(outcomes[i].GetMessage()))
	}
	if err != nil {
		out.Error, out.Message = journaletv1.CallError_CALL_ERROR_VOLUME, err.Error()
	}
	return out
}
