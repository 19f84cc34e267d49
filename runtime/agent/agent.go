package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/api/kubelet"
	"github.com/journalet/journalet/runtime/api/monitoring"
	"github.com/journalet/journalet/runtime/calls"
	"github.com/journalet/journalet/runtime/config"
	"github.com/journalet/journalet/runtime/cri"
	"github.com/journalet/journalet/runtime/cri/cgroup"
	"github.com/journalet/journalet/runtime/cri/health"
	"github.com/journalet/journalet/runtime/cri/pleg"
	"github.com/journalet/journalet/runtime/cri/reap"
	"github.com/journalet/journalet/runtime/drivers"
	"github.com/journalet/journalet/runtime/fold"
	"github.com/journalet/journalet/runtime/host"
	"github.com/journalet/journalet/runtime/image"
	"github.com/journalet/journalet/runtime/image/credentials"
	"github.com/journalet/journalet/runtime/lockfile"
	"github.com/journalet/journalet/runtime/manifests"
	"github.com/journalet/journalet/runtime/objects"
	"github.com/journalet/journalet/runtime/oom"
	"github.com/journalet/journalet/runtime/otlp"
	"github.com/journalet/journalet/runtime/own"
	"github.com/journalet/journalet/runtime/plugins/devices"
	"github.com/journalet/journalet/runtime/pod/gate"
	"github.com/journalet/journalet/runtime/pod/logs/rotate"
	"github.com/journalet/journalet/runtime/pod/probe"
	"github.com/journalet/journalet/runtime/pod/storage"
	"github.com/journalet/journalet/runtime/pod/volume"
	"github.com/journalet/journalet/runtime/podmetrics"
	"github.com/journalet/journalet/runtime/preflight"
	"github.com/journalet/journalet/runtime/pressure"
	"github.com/journalet/journalet/runtime/retention"
	"github.com/journalet/journalet/runtime/runonce"
	"github.com/journalet/journalet/runtime/shutdown"
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
	manifests *manifests.Cache
	host      *host.Host
	drivers   *drivers.List
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
	volumes   *volume.Driver
	objects   *objects.Store
	// credentials holds the credentials of image pulls.
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
	metrics             *monitoring.Metrics
	traces              *otlp.Exporter // nil unless starts are traced

	dispatching monitoring.Loop
	once        *runonce.Driver // nil unless the run ends with its pods
	loops       *monitoring.Checks
	retention   *retention.Driver
	podMetrics  *podmetrics.Driver

	apiOnce   sync.Once
	api       *kubelet.Server
	cluster   *cluster     // nil unless the agent is a node of a cluster
	cgroups   *cgroup.Tree // nil if pods get none
	criDriver *cri.Driver
}

// Run runs the agent until ctx ends, then stops it cleanly, without touching a container. An error means that it could
// not start or that a required part failed.
func Run(ctx context.Context, cfg *config.Config, log *slog.Logger) (err error) {
	ctx, release, err := lockfile.Hold(ctx, cfg.LockFile, cfg.ExitOnLockContention, log)
	if err != nil {
		return err
	}
	defer release()
	a := &agent{cfg: cfg, log: log, metrics: monitoring.NewMetrics(log)}
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
	a.drivers.Recover(recovered)
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
	a.setOOMScore(oom.OwnScore)
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
	a.manifests = manifests.New(func(ctx context.Context, digest string) ([]byte, error) {
		defer a.dispatching.Wait()()
		return a.bus.Manifests().Get(ctx, digest)
	})
	a.host = host.New(host.Options{
		Node: a.facts.NodeName, Epoch: a.bus.Opening().Epoch, Journal: a.bus.Journal(), Snapshots: a.bus.Snapshots(),
		Deciders: fold.AllDeciders, Manifest: a.manifests.Light, Effects: a, Now: time.Now, Log: a.log,
	})
	a.bus.Journal().OnStored(a.dispatch)
	a.bus.Journal().Measure(bus.Meter{Appended: a.metrics.Appended, Synced: a.metrics.Synced})
	a.loops = a.newLoops()
	if err := a.newTraces(); err != nil {
		return err
	}
	if err := a.newDrivers(); err != nil {
		return err
	}
	a.drivers = a.newList()
	return nil
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
func (a *agent) Stored(rec *journaletv1.Record) { a.drivers.Stored(rec) }

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
	if a.once != nil {
		go func() {
			<-a.once.Done()
			end()
		}()
	}
	for _, driver := range a.drivers.Runs() {
		g.Go(func() error {
			if err := driver.Run(run); err != nil && run.Err() == nil {
				return fmt.Errorf("%s: %w", driver.Name, err)
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
	if a.once != nil {
		err = errors.Join(err, a.once.Err())
	}
	return errors.Join(err, a.stop())
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
