//go:build chaos && cluster

package chaos

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	// longestWait bounds the time between two changes of a cluster.
	longestWait = 2 * time.Second
	// mostReplicas bounds a workload's pods, mostJobs the Jobs that are kept.
	mostReplicas, mostJobs = 3, 6
)

// clusterChurn changes the desired state of a cluster. A change that the API server does not answer is repeated in the
// next calm. One goroutine at a time may use it.
type clusterChurn struct {
	s         *site
	r         *rand.Rand
	workloads []*workload
	jobs      []*job // the oldest first
	dropped   []*job // to be deleted
	added     int    // Jobs, ever
	turn      int    // of the ConfigMap and of all workloads
	did       map[string]int

	mu     sync.Mutex
	forced map[types.UID]bool // pods whose deletion waited for nothing
}

func newClusterChurn(s *site, r *rand.Rand) *clusterChurn {
	c := &clusterChurn{s: s, r: r, workloads: workloads(), did: map[string]int{}, forced: map[types.UID]bool{}}
	for _, w := range c.workloads {
		w.replicas = 1
	}
	c.turn++
	return c
}

// run changes one thing after the other until the context ends.
func (c *clusterChurn) run(ctx context.Context) {
	_ = c.repeat() // the first time this creates everything; otherwise the calm has done it
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(c.r.Int64N(int64(longestWait)))):
		}
		what, err := c.change(ctx)
		if err != nil {
			what = "unanswered"
		}
		c.did[what]++
	}
}

// change changes one thing, and returns what.
func (c *clusterChurn) change(ctx context.Context) (string, error) {
	w := c.workloads[c.r.IntN(len(c.workloads))]
	switch dice := c.r.IntN(100); {
	case w.absent && slices.ContainsFunc(c.s.observer.pods(), w.has):
		// The garbage collector deletes what a Deployment had when it sees that this is gone. Where its watch was down
		// meanwhile, it takes one of the same name for it, and the pods of both stay.
		return "nothing", nil
	case w.absent:
		w.absent = false
		return "created", c.apply(ctx, w)
	case dice < 28:
		w.replicas = c.r.Int32N(mostReplicas + 1)
		return "scaled", c.apply(ctx, w)
	case dice < 42:
		c.turn++
		w.turn = c.turn
		return "rolled", c.apply(ctx, w)
	case dice < 46:
		w.absent = true
		return "removed", c.apply(ctx, w)
	case dice < 66:
		return "jobs", c.addJob(ctx)
	case dice < 68:
		if len(c.jobs) > 0 {
			return "jobs dropped", c.drop(ctx, c.r.IntN(len(c.jobs)))
		}
		return "nothing", nil
	case dice < 92:
		return c.deletePod(ctx)
	case dice < 96:
		c.turn++
		return "settings", c.applySettings(ctx)
	}
	_ = c.s.commands() // they fail while anything is away
	return "commands", nil
}

// apply brings one workload's object to its desired state.
func (c *clusterChurn) apply(ctx context.Context, w *workload) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	sets, deployments := c.s.client.AppsV1().StatefulSets(namespace), c.s.client.AppsV1().Deployments(namespace)
	var err error
	switch {
	case w.absent && w.stateful:
		return ignored(sets.Delete(ctx, w.name, background()))
	case w.absent:
		return ignored(deployments.Delete(ctx, w.name, background()))
	case w.stateful:
		_, err = sets.Create(ctx, w.statefulSet(c.s.witness), meta.CreateOptions{})
	default:
		_, err = deployments.Create(ctx, w.deployment(c.s.witness), meta.CreateOptions{})
	}
	if !apierrors.IsAlreadyExists(err) {
		return err
	}
	if w.stateful {
		_, err = sets.Patch(ctx, w.name, types.MergePatchType, w.patch(), meta.PatchOptions{})
	} else {
		_, err = deployments.Patch(ctx, w.name, types.MergePatchType, w.patch(), meta.PatchOptions{})
	}
	return err
}

func background() meta.DeleteOptions {
	policy := meta.DeletePropagationBackground
	return meta.DeleteOptions{PropagationPolicy: &policy}
}

// applySettings writes the ConfigMap that all pods mount.
func (c *clusterChurn) applySettings(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	maps := c.s.client.CoreV1().ConfigMaps(namespace)
	object := &core.ConfigMap{
		ObjectMeta: meta.ObjectMeta{Name: "settings"}, Data: map[string]string{"turn": strconv.Itoa(c.turn)},
	}
	_, err := maps.Create(ctx, object, meta.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		_, err = maps.Update(ctx, object, meta.UpdateOptions{})
	}
	return err
}

// addJob adds a Job of any kind. Beyond the most, the oldest is dropped.
func (c *clusterChurn) addJob(ctx context.Context) error {
	j := &job{
		name: fmt.Sprintf("job-%04d", c.added), work: []string{succeed, succeed, retry, fail}[c.r.IntN(4)],
		completions: 1 + c.r.Int32N(3), parallelism: 1 + c.r.Int32N(3),
	}
	c.added++
	c.jobs = append(c.jobs, j)
	if len(c.jobs) > mostJobs {
		_ = c.drop(ctx, 0) // the next calm repeats it
	}
	return c.applyJob(ctx, j)
}

func (c *clusterChurn) applyJob(ctx context.Context, j *job) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, err := c.s.client.BatchV1().Jobs(namespace).Create(ctx, j.object(c.s.witness), meta.CreateOptions{})
	return ignored(err)
}

// drop deletes a Job, whether it is complete or not.
func (c *clusterChurn) drop(ctx context.Context, i int) error {
	j := c.jobs[i]
	c.jobs = slices.Delete(c.jobs, i, i+1)
	c.dropped = append(c.dropped, j)
	return c.delete(ctx, j)
}

func (c *clusterChurn) delete(ctx context.Context, j *job) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return ignored(c.s.client.BatchV1().Jobs(namespace).Delete(ctx, j.name, background()))
}

// deletePod deletes any pod: within its own grace period, within a second, or at once. Of a Job it deletes one, because
// a Job waits twice as long for each.
func (c *clusterChurn) deletePod(ctx context.Context) (string, error) {
	pods := c.s.observer.pods()
	if len(pods) == 0 {
		return "nothing", nil
	}
	p := pods[c.r.IntN(len(pods))]
	if i := slices.IndexFunc(c.jobs, func(j *job) bool { return j.name == p.Labels[workloadLabel] }); i >= 0 {
		if c.jobs[i].harmed || c.jobs[i].work == fail {
			return "nothing", nil
		}
		c.jobs[i].harmed = true
	}
	options := meta.DeleteOptions{Preconditions: meta.NewUIDPreconditions(string(p.UID))}
	what := "pods deleted"
	switch c.r.IntN(4) {
	case 0:
		var now int64
		options.GracePeriodSeconds = &now
		what = "pods deleted by force"
		c.mu.Lock()
		c.forced[p.UID] = true
		c.mu.Unlock()
	case 1:
		second := int64(1)
		options.GracePeriodSeconds = &second
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return what, ignored(c.s.client.CoreV1().Pods(namespace).Delete(ctx, p.Name, options))
}

func (c *clusterChurn) wasForced(uid string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.forced[types.UID(uid)]
}

// repeat brings every object to its desired state, and returns an error if one could not be.
func (c *clusterChurn) repeat() error {
	ctx := c.s.t.Context()
	errs := c.applySettings(ctx)
	for _, w := range c.workloads {
		errs = errors.Join(errs, c.apply(ctx, w))
	}
	for _, j := range c.jobs {
		errs = errors.Join(errs, c.applyJob(ctx, j))
	}
	c.dropped = slices.DeleteFunc(c.dropped, func(j *job) bool {
		err := c.delete(ctx, j)
		errs = errors.Join(errs, err)
		return err == nil
	})
	return errs
}

// removeAll has no workload and no Job desired any longer.
func (c *clusterChurn) removeAll() {
	for _, w := range c.workloads {
		w.absent = true
	}
	c.jobs, c.dropped = nil, append(c.dropped, c.jobs...)
}

func (c *clusterChurn) String() string {
	var text []string
	for _, what := range slices.Sorted(maps.Keys(c.did)) {
		text = append(text, fmt.Sprintf("%s %d", what, c.did[what]))
	}
	return "changes: " + strings.Join(text, ", ")
}
