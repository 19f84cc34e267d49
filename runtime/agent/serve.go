package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/actors/dispatch"
	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/api/monitoring"
	"github.com/journalet/journalet/runtime/api/query"
	"github.com/journalet/journalet/runtime/calls"
	"github.com/journalet/journalet/runtime/cluster/node"
	"github.com/journalet/journalet/runtime/config"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/open"
	"github.com/journalet/journalet/runtime/own"
	"github.com/journalet/journalet/runtime/preflight"
)

// Version is the agent's version; the build sets it.
var Version = "dev"

// rejectBesideKubelet returns an error if a kubelet uses the same runtime.
func rejectBesideKubelet(cfg *config.Config) error {
	if simulated(cfg) || cfg.AllowBesideKubelet {
		return nil
	}
	pid, running := preflight.KubeletRunning(cfg.ContainerRuntimeEndpoint)
	if !running {
		return nil
	}
	return fmt.Errorf("a kubelet (pid %d) runs on this node with the same container runtime: "+
		"stop it first, or pass --allow-beside-kubelet", pid)
}

// protectKernelDefaults returns an error if the configuration asks for kernel settings that this machine does not have.
func protectKernelDefaults(cfg *config.Config) error {
	if simulated(cfg) || !cfg.ProtectKernelDefaults {
		return nil
	}
	if differ := preflight.KernelTunables(); len(differ) > 0 {
		return fmt.Errorf("--protect-kernel-defaults: set sysctl %s, or remove the flag", strings.Join(differ, " "))
	}
	return nil
}

// checks returns the checks of the agent's health, and more. They are independent of each other.
func (a *agent) checks(more ...monitoring.Check) *monitoring.Checks {
	checks := []monitoring.Check{
		{Name: "journal", Probe: func() error {
			since, err := a.bus.Journal().Stalled()
			if err != nil {
				return fmt.Errorf("appends stalled since %s: %w", since.Format("15:04:05"), err)
			}
			return nil
		}},
		{Name: "pleg", Probe: a.pleg.Healthy},
		{Name: "file source", Probe: a.files.Healthy},
	}
	if a.url != nil {
		checks = append(checks, monitoring.Check{Name: "http source", Probe: a.url.Healthy})
	}
	return monitoring.NewChecks(a.log, append(checks, more...)...)
}

// A decision or a call that takes longer is unhealthy. A decision takes microseconds. A call to the runtime times out
// after two minutes, or four (RunPodSandbox), and is then inspected; volume work depends on the disk.
const (
	maxDecisionTime = 10 * time.Second
	maxCallTime     = 10 * time.Minute
)

// healthz returns checks, and in addition the checks of single actors and calls. All are only reported: see alive for
// what makes systemd restart the agent.
func (a *agent) healthz() *monitoring.Checks {
	return a.checks(
		monitoring.Check{Name: "actors", Probe: a.checkActors},
		monitoring.Check{Name: "calls", Probe: a.checkCalls},
		monitoring.Check{Name: "quarantine", Probe: func() error { return quarantined(a.host.Quarantines()) }},
		monitoring.Check{Name: "outcomes", Probe: a.checkOutcomes},
	)
}

// quarantined returns an error that names the quarantined actors that every pod needs, each with the reason. A pod's
// own quarantine does not fail the node: `journalet pods` and the metrics show it.
func quarantined(all map[messages.Ref]*journaletv1.Quarantined) error {
	var failed []string
	for _, ref := range slices.SortedFunc(maps.Keys(all), func(x, y messages.Ref) int {
		return cmp.Compare(x.String(), y.String())
	}) {
		if ref.Kind != journaletv1.ActorKind_ACTOR_KIND_POD {
			q := all[ref]
			failed = append(failed, fmt.Sprintf(
				"%s is quarantined, it failed on record %d: %s; `journalet lift %s` tries again",
				ref, q.GetCause(), q.GetMessage(), ref))
		}
	}
	if len(failed) == 0 {
		return nil
	}
	return errors.New(strings.Join(failed, "; "))
}

func (a *agent) checkOutcomes() error {
	if err := a.host.Refused(); err != nil {
		return fmt.Errorf("%w; restart the agent, which inspects the runtime again", err)
	}
	return nil
}

func (a *agent) checkActors() error { return hanging(a.host.Hanging(maxDecisionTime)) }

// hanging returns an error that names the actor that has handled one record for longest.
func hanging(all map[messages.Ref]time.Time) error {
	if len(all) == 0 {
		return nil
	}
	refs := slices.SortedFunc(maps.Keys(all), func(x, y messages.Ref) int {
		return cmp.Or(all[x].Compare(all[y]), cmp.Compare(x.String(), y.String()))
	})
	return fmt.Errorf("%s has been handling one record since %s%s; see the agent's log, and restart it",
		refs[0], all[refs[0]].Format(time.TimeOnly), andMore(len(refs)-1, "actor"))
}

func (a *agent) checkCalls() error { return overdue(a.calls.Overdue(maxCallTime)) }

// overdue returns an error that names the call that has been under way for longest.
func overdue(all []calls.Overdue) error {
	if len(all) == 0 {
		return nil
	}
	uid := all[0].Request.GetPodUid()
	return fmt.Errorf("%s of pod %s has been under way since %s%s; `journalet pod %s` shows what the pod waits for",
		calls.Operation(all[0].Request), uid, all[0].Since.Format(time.TimeOnly), andMore(len(all)-1, "call"), uid)
}

func andMore(n int, what string) string {
	switch n {
	case 0:
		return ""
	case 1:
		return ", and 1 more " + what
	}
	return fmt.Sprintf(", and %d more %ss", n, what)
}

// ready returns the checks of /readyz beyond health.
func (a *agent) ready() *monitoring.Checks {
	checks := []monitoring.Check{{Name: "runtime", Probe: a.runtimeReady}}
	if a.cluster != nil {
		checks = append(checks, monitoring.Check{Name: "API server", Probe: a.cluster.contact.Refused},
			monitoring.Check{Name: "pods of the API server", Probe: a.cluster.pods.Whole})
	}
	return monitoring.NewChecks(a.log, checks...)
}

func (a *agent) runtimeReady() error {
	var err error
	ctx, cancel := context.WithTimeout(context.Background(), inspectTimeout)
	defer cancel()
	inspected := a.host.Inspect(ctx, messages.Runtime, func(d actors.Decider) {
		if h := d.(*dispatch.Actor).Runtime().GetHealth(); !h.GetRuntimeReady() {
			err = fmt.Errorf("the container runtime is not ready: %s", h.GetMessage())
		}
	})
	return cmp.Or(inspected, err)
}

// serveHTTP serves health and metrics unless the port is 0.
func (a *agent) serveHTTP(ctx context.Context) error {
	if a.cfg.HealthzPort == 0 {
		<-ctx.Done()
		return nil
	}
	a.metrics.Build(Version, a.facts.NodeName)
	a.metrics.Kubernetes(node.KubeletVersion(Version))
	a.metrics.Count(a.counts)
	s, err := monitoring.Listen(monitoring.Options{
		Address: net.JoinHostPort(a.cfg.HealthzBindAddress, strconv.Itoa(int(a.cfg.HealthzPort))), Flag: "--healthz-port",
		Health: a.healthz(), Ready: a.ready(), Metrics: a.metrics, Profiling: a.cfg.Profiling, Log: a.log,
	})
	if err != nil {
		return err
	}
	return s.Serve(ctx)
}

// notify notifies systemd.
func (a *agent) notify(ctx context.Context) error {
	s := monitoring.NewSystemd(a.alive, a.log)
	s.Ready("running on node " + a.facts.NodeName)
	s.Watch(ctx)
	<-ctx.Done()
	s.Stopping()
	return nil
}

// serveQueries serves the command line and other clients.
func (a *agent) serveQueries(ctx context.Context) (func(), error) {
	return query.Serve(ctx, a.queryOptions())
}

func (a *agent) queryOptions() query.Options {
	return query.Options{
		Conn: a.bus.Services(), Host: a.host, Journal: a.bus.Journal(), Node: a.facts.NodeName, NodeView: a.nodeView,
		Withhold: !a.cfg.ObserveContainerOutput, Whole: a.manifests.Whole,
		History: a.openHistory, Prune: a.retention.Prune, Images: a.listImages, Fact: a.host.Fact,
		Version: Version, Epoch: a.bus.Opening().Epoch, Simulated: simulated(a.cfg), Log: a.log,
	}
}

func (a *agent) busOptions(sync bus.SyncPolicy) bus.Options {
	return bus.Options{
		Dir: filepath.Join(a.cfg.RootDir, own.Bus), Node: a.facts.NodeName, Sync: sync, Log: a.log,
		Withhold: !a.cfg.ObserveContainerOutput,
		Listen:   a.cfg.BusListen, TLSCertFile: a.cfg.BusTLSCertFile, TLSPrivateKeyFile: a.cfg.BusTLSPrivateKeyFile,
	}
}

// openHistory opens the agent's own journal to read it back.
func (a *agent) openHistory(ctx context.Context) (history.Reader, error) {
	return open.Path(ctx, filepath.Join(a.cfg.RootDir, open.BusDir))
}

// nodeView returns the node's part of a pod's status.
func (a *agent) nodeView() pod.Node {
	name := "containerd"
	ctx, cancel := context.WithTimeout(context.Background(), inspectTimeout)
	defer cancel()
	_ = a.host.Inspect(ctx, messages.Runtime, func(d actors.Decider) {
		if n := d.(*dispatch.Actor).Runtime().GetHealth().GetRuntimeName(); n != "" {
			name = n
		}
	})
	ips, _ := a.nodeIPs() // without one the status has none
	return pod.Node{HostIPs: ips, RuntimeName: name}
}
