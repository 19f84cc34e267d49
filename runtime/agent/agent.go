package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/actors/dispatch"
	imageactor "github.com/journalet/journalet/actors/image"
	"github.com/journalet/journalet/actors/node"
	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/actors/source"
	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/api/kubelet"
	"github.com/journalet/journalet/runtime/api/server"
	"github.com/journalet/journalet/runtime/config"
	"github.com/journalet/journalet/runtime/cri"
	"github.com/journalet/journalet/runtime/cri/calls"
	"github.com/journalet/journalet/runtime/cri/cgroup"
	"github.com/journalet/journalet/runtime/cri/health"
	"github.com/journalet/journalet/runtime/cri/pleg"
	"github.com/journalet/journalet/runtime/cri/reap"
	"github.com/journalet/journalet/runtime/fold"
	"github.com/journalet/journalet/runtime/host"
	"github.com/journalet/journalet/runtime/image"
	"github.com/journalet/journalet/runtime/image/credentials"
	"github.com/journalet/journalet/runtime/iptables"
	"github.com/journalet/journalet/runtime/objects"
	"github.com/journalet/journalet/runtime/oom"
	"github.com/journalet/journalet/runtime/otlp"
	"github.com/journalet/journalet/runtime/own"
	"github.com/journalet/journalet/runtime/plugins/devices"
	"github.com/journalet/journalet/runtime/pod/gate"
	"github.com/journalet/journalet/runtime/pod/logs/rotate"
	"github.com/journalet/journalet/runtime/pod/probe"
	"github.com/journalet/journalet/runtime/pod/storage"
	"github.com/journalet/journalet/runtime/preflight"
	"github.com/journalet/journalet/runtime/pressure"
	"github.com/journalet/journalet/runtime/shutdown"
	"github.com/journalet/journalet/runtime/source/feed"
	"github.com/journalet/journalet/runtime/source/file"
	"github.com/journalet/journalet/runtime/source/url"
	"github.com/journalet/journalet/runtime/stats"
	"github.com/journalet/journalet/runtime/timer"
)

// stopGrace bounds a clean stop; decisions not stored by then are taken again at the next start.
const stopGrace = 10 * time.Second

// agent is one run of the agent.
type agent struct {
	cfg   *config.Config
	facts *config.NodeFacts
	log   *slog.Logger

	bus       *bus.Bus
	conn      *grpc.ClientConn
	closers   []func()
	manifests *manifestCache
	host      *host.Host
	timers    *timer.Driver
	calls     *calls.Executor
	pleg      *pleg.PLEG
	probes    *probe.Driver
	reaper    *reap.Reaper
	gates     *gate.Driver
	storage   *storage.Driver
	rotation  *rotate.Driver // nil if no log is rotated
	images    *image.Driver
	stats     *stats.Stats
	volumes   volumes
	objects   *objects.Store
	// credentials are those of pulls.
	credentials *credentials.Driver
	// serviceAccountPulls means that a credential provider wants tokens of service accounts.
	serviceAccountPulls bool
	files               *file.Driver
	url                 *url.Driver // nil without a manifest URL
	health              *health.Monitor
	shutdown            *shutdown.Driver // nil unless shutdowns of the machine are delayed
	pressure            *pressure.Driver // nil without a real runtime
	oom                 *oom.Driver      // nil without a real runtime
	devices             *devices.Driver  // as pressure
	metrics             *server.Metrics
	traces              *otlp.Exporter // nil unless starts are traced

	cutting     sync.Mutex // held while the journal is cut
	dispatching loop
	once        once
	loops       *server.Checks
	starting    starting

	apiOnce   sync.Once
	api       *kubelet.Server
	cluster   *cluster     // nil unless the agent is a node of a cluster
	cgroups   *cgroup.Tree // nil if pods get none
	criDriver *cri.Driver
}

// Run runs the agent until ctx ends, then stops it cleanly, without touching a container. An error means that it could
// not start or that a required part failed.
func Run(ctx context.Context, cfg *config.Config, log *slog.Logger) (err error) {
	a := &agent{
		cfg: cfg, log: log, metrics: server.NewMetrics(), once: once{wake: make(chan struct{}, 1)}, starting: starting{},
	}
	defer func() { err = errors.Join(err, a.close()) }()
	if err := a.open(ctx); err != nil {
		return err
	}
	begun := time.Now()
	recovered, err := a.host.Recover()
	if err != nil {
		return err
	}
	a.metrics.Folded(time.Since(begun), a.bus.Opening().Last)
	// Nothing can fail the start from here on. Until now it has not changed a file.
	if err := a.bus.Begin(); err != nil {
		return err
	}
	a.seed(recovered)
	a.recordDamage()
	a.host.Start(recovered, a.started(recovered))
	a.reportLost()
	a.timers.Begin()
	log.Info("journalet started", "node", a.facts.NodeName, "epoch", a.bus.Opening().Epoch,
		"records", a.bus.Opening().Last, "pods", len(a.host.Refs(journaletv1.ActorKind_ACTOR_KIND_POD)),
		"runtime", cfg.ContainerRuntimeEndpoint, "manifests", cfg.StaticPodPath)
	return a.serve(ctx)
}

// open opens what the fold needs and creates the drivers without running them.
func (a *agent) open(ctx context.Context) (err error) {
	if a.facts, err = a.cfg.NodeFacts(); err != nil {
		return err
	}
	if simulated(a.cfg) {
		a.cfg.SimulatedPaths()
	}
	if err := rejectBesideKubelet(a.cfg); err != nil {
		return err
	}
	if err := protectKernelDefaults(a.cfg); err != nil {
		return err
	}
	if err := a.checkReserved(); err != nil {
		return err
	}
	a.setOOMScore("/proc/self/oom_score_adj")
	if err := createRoot(a.cfg.RootDir); err != nil {
		return err
	}
	sync, err := bus.ParseSync(a.cfg.JournalSync)
	if err != nil {
		return err
	}
	a.bus, err = bus.Prepare(ctx, a.busOptions(sync))
	if err != nil {
		return err
	}
	if err := a.connect(); err != nil {
		return err
	}
	a.manifests = newManifestCache(func(ctx context.Context, digest string) ([]byte, error) {
		defer a.dispatching.wait()()
		return a.bus.Manifests().Get(ctx, digest)
	})
	a.host = host.New(host.Options{
		Node: a.facts.NodeName, Epoch: a.bus.Opening().Epoch, Journal: a.bus.Journal(), Snapshots: a.bus.Snapshots(),
		Deciders: fold.AllDeciders, Manifest: a.manifests.light, Effects: a, Now: time.Now, Log: a.log,
	})
	a.bus.Journal().OnStored(a.dispatch)
	a.bus.Journal().Measure(bus.Meter{Appended: a.metrics.Appended, Synced: a.metrics.Synced})
	a.loops = a.newLoops()
	if err := a.newTraces(); err != nil {
		return err
	}
	return a.newDrivers()
}

// createRoot creates the agent's directories: pods with the kubelet's mode (0750), the rest closed to others.
func createRoot(dir string) error {
	if err := preflight.CheckRoot(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(dir, own.Pods), 0o750); err != nil {
		return fmt.Errorf("cannot use root directory %s: %w (choose another with --root-dir, or run as root)", dir, err)
	}
	// Somebody else may have created it just before.
	if err := preflight.CheckRoot(dir); err != nil {
		return err
	}
	probe, err := os.CreateTemp(dir, own.Probe)
	if err != nil {
		return fmt.Errorf("cannot write to root directory %s: %w (choose another with --root-dir)", dir, err)
	}
	return errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// Stored passes a stored record to the drivers, in the journal's order.
func (a *agent) Stored(rec *journaletv1.Record) {
	a.timers.Stored(rec)
	a.calls.Stored(rec)
	a.probes.Stored(rec)
	a.gates.Stored(rec)
	a.storage.Stored(rec)
	if a.rotation != nil {
		a.rotation.Stored(rec)
	}
	a.images.Stored(rec)
	a.objects.Stored(rec)
	a.credentials.Stored(rec)
	a.once.signal()
	a.manifests.Stored(rec)
	feed.LogIgnored(a.log, rec)
	a.measureStored(rec)
	if a.shutdown != nil {
		a.shutdown.Stored(rec)
	}
	if a.pressure != nil {
		a.pressure.Stored(rec)
	}
	if a.devices != nil {
		a.devices.Stored(rec)
	}
	if a.traces != nil {
		a.traces.Stored(rec)
	}
	if a.cluster != nil {
		a.cluster.Stored(rec)
	}
	for i, e := range rec.GetStep().GetDecisions() {
		if k := e.GetCallRequested(); k.GetStartContainer() != nil {
			actor := messages.RefOf(rec.GetActor())
			a.registerStart(messages.DecisionID(rec.GetEpoch(), rec.GetStep().GetCause(), actor, i), k)
		}
		if k := e.GetPodForgotten(); k != nil {
			a.pleg.Forget(k.GetUid())
		}
		if k := e.GetPodTerminated(); k != nil {
			a.pleg.IgnoreEvents(k.GetUid())
		}
	}
}

// registerStart registers a call that creates a container at the PLEG.
func (a *agent) registerStart(intent string, req *journaletv1.CallRequested) {
	if k := req.GetStartContainer(); k != nil && k.GetPart() != journaletv1.StartPart_START_PART_START {
		a.pleg.RegisterStart(req.GetPodUid(), k.GetContainer(), intent)
	}
}

// seed gives the drivers the folded state, so that they do not record unchanged facts again. It includes facts that an
// actor has received but not handled: they are not in its state yet.
func (a *agent) seed(r *host.Recovered) {
	var seen []*journaletv1.PodObserved
	r.Each(func(ref messages.Ref, d actors.Decider) {
		a.timers.Seed(ref, d.Timers())
		r.Pending(ref, a.timers.SeedPending)
		if a.cluster != nil {
			a.cluster.seed(r, ref, d)
		}
		switch d := d.(type) {
		case *source.Actor:
			a.seedSource(r, ref, d)
		case *dispatch.Actor:
			a.calls.Seed(d.Runtime().GetCalls())
			last := d.Runtime().GetHealth()
			r.Pending(ref, func(rec *journaletv1.Record) {
				a.calls.Stored(rec)
				if fact := rec.GetFact().GetRuntimeHealthChanged(); fact != nil {
					last = fact
				}
			})
			a.health = health.New(a.healthOptions(last))
		case *imageactor.Actor:
			a.seedImages(r, ref, d)
			a.credentials.Seed(d.Images())
			r.Pending(ref, a.credentials.Stored)
		case *node.Actor:
			a.seedShutdown(r, ref, d)
			a.seedPressure(r, ref, d)
		case *pod.Actor:
			a.manifests.own(ref.ID, d.Pod().GetPod().GetDigest())
			a.seedCgroups(ref, d)
			a.seedProbes(r, ref, d)
			a.seedGates(r, ref, d)
			a.seedStorage(r, ref, d)
			a.seedRotation(r, ref, d)
			a.seedVolumes(r, ref, d)
			a.seedObjects(r, ref, d)
			last, certain := d.Pod().GetObserved(), d.Observed()
			r.Pending(ref, func(rec *journaletv1.Record) {
				if o := rec.GetFact().GetPodObserved(); o != nil {
					last = o
				}
				// The effect of the call must be observed once more.
				certain = certain && rec.GetFact().GetCallFinished() == nil
			})
			switch {
			case !certain:
				a.pleg.Expect(ref.ID)
				for name, c := range d.Pod().GetContainers() {
					a.pleg.RegisterStart(ref.ID, name, c.GetCurrent().GetIntentId())
				}
			case last != nil:
				seen = append(seen, last)
			}
			for id, call := range d.Pod().GetCalls() {
				a.registerStart(id, call.GetRequest())
			}
		}
	})
	a.pleg.Seed(seen)
	a.reconcileVolumes()
}

// recordDamage records damage of the journal that was found at the start.
func (a *agent) recordDamage() {
	damage := a.bus.Opening().Damage
	if damage == nil {
		return
	}
	a.log.Warn("the journal is damaged; continuing with the last good record and the state of the runtime",
		"damage", damage.GetMessage())
	a.host.Outcome(messages.Agent, messages.NewEvent(damage))
}

// serve runs the drivers until ctx ends or one of them fails.
func (a *agent) serve(ctx context.Context) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	a.reaper.Sweep(ctx)
	g, run := errgroup.WithContext(ctx)
	drivers := map[string]func(context.Context) error{
		"runtime health": a.health.Run, "pleg": a.pleg.Run, "probes": a.probes.Run, "readiness gates": a.gates.Run,
		"file source": a.files.Run, "health server": a.serveHTTP, "server": a.serveAPI,
		"retention": a.retain, "cgroups": a.maintainCgroups, "reserved cgroups": a.enforceReserved,
		"ephemeral storage": a.storage.Run, "directories of pods": a.reportDirectories,
		"objects": a.objects.Run, "images": a.images.Run,
	}
	if a.url != nil {
		drivers["http source"] = a.url.Run
	}
	if a.rotation != nil {
		drivers["log rotation"] = a.rotation.Run
	}
	if a.shutdown != nil {
		drivers["shutdown"] = a.shutdown.Run
	}
	if a.pressure != nil {
		drivers["pressure"] = a.pressure.Run
	}
	if a.oom != nil {
		drivers["oom"] = a.oom.Run
	}
	maps.Copy(drivers, a.pluginDrivers())
	if a.traces != nil {
		drivers["traces"] = a.traces.Run
	}
	if a.cluster != nil {
		maps.Copy(drivers, a.cluster.drivers())
		if !simulated(a.cfg) && !a.cfg.Cluster.NoIPTablesChains {
			drivers["iptables"] = iptables.New(iptables.Options{Log: a.log}).Run
		}
	}
	if a.cfg.Once {
		drivers["once"] = func(ctx context.Context) error {
			defer end()
			a.once.err = a.untilOnce(ctx)
			return nil
		}
	}
	for name, driver := range drivers {
		g.Go(func() error {
			if err := driver(run); err != nil && run.Err() == nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return nil
		})
	}
	stopQueries, failed := a.serveQueries(run)
	g.Go(func() error {
		if failed != nil {
			return failed
		}
		return a.notify(run)
	})
	<-run.Done()
	a.log.Info("journalet is stopping; pods keep running")
	err := g.Wait()
	if stopQueries != nil {
		stopQueries()
	}
	return errors.Join(err, a.once.err, a.stop())
}

// stop writes the last record of the run.
func (a *agent) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopGrace)
	defer cancel()
	a.calls.Close()
	a.timers.Close()
	a.host.Outcome(messages.Agent, messages.NewEvent(&journaletv1.AgentStopped{Reason: "stop requested"}))
	if err := a.bus.Journal().Flush(ctx); err != nil {
		return err
	}
	if err := a.host.Stop(ctx); err != nil {
		a.log.Warn("cannot take snapshots; the next start reads more of the journal", "err", err)
	}
	return nil
}

// close closes what open has opened, in reverse order.
func (a *agent) close() error {
	var err error
	if a.bus != nil {
		ctx, cancel := context.WithTimeout(context.Background(), stopGrace)
		defer cancel()
		err = a.bus.Close(ctx)
	}
	for i := len(a.closers) - 1; i >= 0; i-- {
		a.closers[i]()
	}
	return err
}
