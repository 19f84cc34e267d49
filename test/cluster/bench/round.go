package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	core "k8s.io/api/core/v1"

	"github.com/journalet/journalet/test/cluster"
)

const (
	// settle is the time after the burst, and after its deletion, until no work of either is left.
	settle = 10 * time.Second
	// quietFor is how long the machine is measured before a round.
	quietFor = 2 * time.Second
	// calmExits containers are killed while nothing else happens, busyExits while busyPods are started.
	calmExits = 30
	busyExits = 10
	busyPods  = 20
	// Exits come at random moments, so that no period of an agent matches them.
	calmPause = 400 * time.Millisecond
	busyPause = 200 * time.Millisecond
)

// round measures one agent once.
type round struct {
	*bench
	name  string
	agent *agent
	pods  *namespace
	n     int
	// ofPods are the windows whose requests are about the pods of the burst.
	ofPods []window
}

// measure measures one agent on a node and in a namespace of its own.
func (b *bench) measure(ctx context.Context, name string, n int) (err error) {
	if err := b.wipe(ctx); err != nil {
		return err
	}
	node := fmt.Sprintf("%s-%d", name, b.round)
	a, err := b.newAgent(name, node)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pods, err := b.newNamespace(ctx, node)
	if err != nil {
		return err
	}
	r := &round{bench: b, name: name, agent: a, pods: pods, n: n}
	defer func() { err = errors.Join(err, b.StopNode(context.WithoutCancel(ctx), node)) }()
	stages := []func(context.Context) error{
		r.quiet, r.begin, r.burst, r.idle, r.restart, r.exits, r.deletion,
	}
	if b.csi {
		v := &volumes{round: r}
		defer v.stop()
		stages = []func(context.Context) error{r.quiet, r.begin, v.provide, v.burst, v.idle, v.deletion}
	}
	for _, stage := range stages {
		if err := stage(ctx); err != nil {
			return err
		}
	}
	return nil
}

// pause waits, or returns the error of ctx.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// quiet measures what the machine does beside the idle control plane and the empty runtime.
func (r *round) quiet(ctx context.Context) error {
	begin, err := r.usage(0)
	if err := errors.Join(err, pause(ctx, quietFor)); err != nil {
		return err
	}
	end, err := r.usage(0)
	if err != nil {
		return err
	}
	return r.out("cluster_quiet", figures{"others_millicores": millicores(end.others-begin.others, quietFor)})
}

func millicores(seconds float64, period time.Duration) float64 {
	return r3(seconds / period.Seconds() * 1000)
}

func r3(x float64) float64 { return math.Round(x*1000) / 1000 }

// begin starts the agent, until its Node is ready, and waits until the scheduler may use it.
func (r *round) begin(ctx context.Context) error {
	began := time.Now()
	if err := r.agent.start(ctx); err != nil {
		return err
	}
	took := time.Since(began)
	ctx, cancel := context.WithTimeout(ctx, r.limit)
	defer cancel()
	if err := cluster.Until(ctx, func() error { return r.agent.schedulable(ctx) }); err != nil {
		return err
	}
	return r.out("cluster_node", figures{"ready_s": r3(took.Seconds())})
}

// within waits for pods at most for the limit.
func (r *round) within(ctx context.Context, pods []string, what func(*sighting) time.Time) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, r.limit)
	defer cancel()
	return r.pods.seen.await(ctx, pods, what)
}

func createdAt(s *sighting) time.Time { return s.created }
func boundAt(s *sighting) time.Time   { return s.bound }
func runningAt(s *sighting) time.Time { return s.running }
func readyAt(s *sighting) time.Time   { return s.ready }
func exitedAt(s *sighting) time.Time  { return s.exited }
func goneAt(s *sighting) time.Time    { return s.gone }

func (r *round) burstPods() []string { return names("burst", r.n) }

func (r *round) burst(ctx context.Context) error { return r.burstOf(ctx, "cluster_burst") }

// burstOf creates all pods at once, each as the functions change it.
func (r *round) burstOf(ctx context.Context, scenario string, change ...func(*core.Pod)) error {
	pid, err := r.agent.pid()
	if err != nil {
		return err
	}
	before, err := r.usage(pid)
	if err != nil {
		return err
	}
	began := time.Now()
	if err := r.pods.create(ctx, r.burstPods(), core.RestartPolicyAlways, change...); err != nil {
		return err
	}
	ok, err := r.within(ctx, r.burstPods(), readyAt)
	if err != nil {
		return err
	}
	after, err := r.usage(pid)
	if err != nil {
		return err
	}
	rss, private, err := memoryOf(pid)
	if err != nil {
		return err
	}
	all := r.pods.seen.named(r.burstPods())
	first := slices.MinFunc(all, func(a, b sighting) int { return a.created.Compare(b.created) }).created
	fromFirst := func(*sighting) time.Time { return first }
	f := figures{"complete": ok, "cpu_s": r3(after.agent - before.agent), "rss_mib": r3(rss), "private_mib": r3(private)}
	for name, at := range map[string]func(*sighting) time.Time{"running": runningAt, "ready": readyAt} {
		f[name+"_p50_s"] = r3(quantile(spread(all, createdAt, at), 0.5))
		f[name+"_last_s"] = r3(quantile(spread(all, fromFirst, at), 1))
	}
	err = pause(ctx, settle)
	r.ofPods = append(r.ofPods, window{began, time.Now()})
	return errors.Join(err, r.out(scenario, f))
}

// idle measures an agent whose pods all run.
func (r *round) idle(ctx context.Context) error { return r.idleOf(ctx, "cluster_idle") }

func (r *round) idleOf(ctx context.Context, scenario string) error {
	pid, err := r.agent.pid()
	if err != nil {
		return err
	}
	begin, err := r.usage(pid)
	w := window{begin: time.Now()}
	if err := errors.Join(err, pause(ctx, r.options.idle)); err != nil {
		return err
	}
	end, err := r.usage(pid)
	w.end = time.Now()
	if err != nil {
		return err
	}
	rss, private, err := memoryOf(pid)
	if err != nil {
		return err
	}
	sent, err := r.requests(false, w)
	if err != nil {
		return err
	}
	took := w.end.Sub(w.begin)
	r.explain("idle", sent)
	return r.out(scenario, figures{
		"cpu_millicores":     millicores(end.agent-begin.agent, took),
		"runtime_millicores": millicores(end.runtime-begin.runtime, took),
		"shim_millicores":    millicores(end.shims-begin.shims, took),
		"others_millicores":  millicores(end.others-begin.others, took),
		// Windows of two agents differ by milliseconds, which is no fraction of a request.
		"requests_hour": math.Round(float64(sent.total()) * time.Hour.Seconds() / took.Seconds()),
		"rss_mib":       r3(rss), "private_mib": r3(private),
	})
}

// explain logs requests by what they are for.
func (r *round) explain(stage string, c counts) {
	var all []string
	for _, name := range slices.Sorted(maps.Keys(c)) {
		all = append(all, fmt.Sprintf("%d %s", c[name], name))
	}
	slog.Info("requests", "agent", r.name, "stage", stage, "are", strings.Join(all, ", "))
}

// restart kills the agent, has a pod bound to its node, and starts the agent again.
func (r *round) restart(ctx context.Context) error {
	if err := r.KillNode(r.agent.node); err != nil {
		return err
	}
	pod := []string{"restart"}
	if err := r.pods.create(ctx, pod, core.RestartPolicyAlways); err != nil {
		return err
	}
	if ok, err := r.within(ctx, pod, boundAt); err != nil || !ok {
		return errors.Join(err, errors.New("no pod was bound to the node of a killed agent"))
	}
	began := time.Now()
	if err := r.agent.start(ctx); err != nil {
		return err
	}
	ok, err := r.within(ctx, pod, runningAt)
	if err != nil {
		return err
	}
	took := r.pods.seen.named(pod)[0].running.Sub(began)
	return r.out("cluster_restart", figures{"complete": ok, "running_s": r3(took.Seconds())})
}

// exits kills containers behind the agent's back: first while nothing else happens, then while other pods start.
func (r *round) exits(ctx context.Context) error {
	pods := names("exit", calmExits+busyExits)
	if err := r.pods.create(ctx, pods, core.RestartPolicyNever); err != nil {
		return err
	}
	ok, err := r.within(ctx, pods, readyAt)
	if err := errors.Join(err, pause(ctx, settle/2)); err != nil {
		return err
	}
	if !ok {
		return errors.New("pods to be killed do not start")
	}
	containers, err := r.runtime.containers(ctx, r.pods.name)
	if err != nil {
		return err
	}
	if err := r.kills(ctx, "cluster_exit", pods[:calmExits], containers, calmPause); err != nil {
		return err
	}
	others := names("busy", busyPods)
	if err := r.pods.create(ctx, others, core.RestartPolicyAlways); err != nil {
		return err
	}
	if err := r.kills(ctx, "cluster_busy_exit", pods[calmExits:], containers, busyPause); err != nil {
		return err
	}
	_, err = r.within(ctx, others, readyAt)
	return err
}

// kills kills the containers of pods, one after another, and reports how long the API server's status took.
func (r *round) kills(ctx context.Context, scenario string, pods []string, containers map[string]string,
	mean time.Duration,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events, err := r.runtime.stops(ctx)
	if err != nil {
		return err
	}
	ended := map[string]time.Time{}
	for _, pod := range pods {
		if err := pause(ctx, mean/2+rand.N(mean)); err != nil {
			return err
		}
		at, err := r.runtime.kill(ctx, containers[pod])
		if err != nil {
			return err
		}
		ended[pod] = at
	}
	ok, err := r.within(ctx, pods, exitedAt)
	if err != nil {
		return err
	}
	var took, reported []float64
	for i, is := range r.pods.seen.named(pods) {
		if !is.exited.IsZero() {
			took = append(took, 1000*is.exited.Sub(ended[pods[i]]).Seconds())
		}
		if at := events.stoppedAt(containers[pods[i]]); !at.IsZero() {
			reported = append(reported, 1000*at.Sub(ended[pods[i]]).Seconds())
		}
	}
	slices.Sort(took)
	slices.Sort(reported)
	return r.out(scenario, figures{
		"complete": ok, "count": len(took), "p50_ms": r3(quantile(took, 0.5)), "p99_ms": r3(quantile(took, 0.99)),
		"runtime_p50_ms": r3(quantile(reported, 0.5)),
	})
}

// deletion deletes the pods of the burst at once, and counts the requests for them.
func (r *round) deletion(ctx context.Context) error {
	return errors.Join(r.deletionOf(ctx, "cluster_delete"), r.perPod(), r.rest(ctx))
}

// deletionOf deletes the pods of the burst at once.
func (r *round) deletionOf(ctx context.Context, scenario string) error {
	pid, err := r.agent.pid()
	if err != nil {
		return err
	}
	if err := pause(ctx, settle/2); err != nil {
		return err
	}
	before, err := r.usage(pid)
	if err != nil {
		return err
	}
	began := time.Now()
	at, err := r.pods.delete(ctx, r.burstPods())
	if err != nil {
		return err
	}
	ok, err := r.within(ctx, r.burstPods(), goneAt)
	if err != nil {
		return err
	}
	after, err := r.usage(pid)
	if err := errors.Join(err, pause(ctx, settle)); err != nil {
		return err
	}
	r.ofPods = append(r.ofPods, window{began, time.Now()})
	var took []float64
	last := began
	for i, is := range r.pods.seen.named(r.burstPods()) {
		if !is.gone.IsZero() {
			took = append(took, is.gone.Sub(at[i]).Seconds())
			last = slices.MaxFunc([]time.Time{last, is.gone}, time.Time.Compare)
		}
	}
	slices.Sort(took)
	return r.out(scenario, figures{
		"complete": ok, "p50_s": r3(quantile(took, 0.5)), "last_s": r3(last.Sub(began).Seconds()),
		"cpu_s": r3(after.agent - before.agent),
	})
}

// perPod reports the requests of a pod from its creation until it is gone, without what the other stages cause.
func (r *round) perPod() error {
	sent, err := r.requests(true, r.ofPods...)
	if err != nil {
		return err
	}
	r.explain("pods", sent)
	share := func(n int) float64 { return r3(float64(n) / float64(r.n)) }
	f := figures{"pod": share(sent.total())}
	verbs := map[string]int{"get": 0, "patch": 0, "create": 0, "delete": 0, "list": 0, "watch": 0}
	for name, n := range sent {
		verbs[name[strings.LastIndexByte(name, ' ')+1:]] += n
	}
	for verb, n := range verbs {
		f[verb] = share(n)
	}
	return r.out("cluster_requests", f)
}

// rest deletes the other pods, so that the next round begins without them.
func (r *round) rest(ctx context.Context) error {
	others := slices.Concat([]string{"restart"}, names("exit", calmExits+busyExits), names("busy", busyPods))
	if _, err := r.pods.delete(ctx, others); err != nil {
		return err
	}
	_, err := r.within(ctx, others, goneAt)
	return err
}
