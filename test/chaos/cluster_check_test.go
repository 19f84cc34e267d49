//go:build chaos && cluster

package chaos

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/journalet/journalet/test/node"
)

// fits compares the API server with the desired state, and the runtime, the disk and the witness with the API server.
// It returns every difference.
func (s *site) fits() error {
	ctx, cancel := context.WithTimeout(context.Background(), requestTimeout)
	defer cancel()
	list, err := s.client.CoreV1().Pods(namespace).List(ctx, meta.ListOptions{})
	if err != nil {
		return err
	}
	pods := map[string]*core.Pod{}
	for i := range list.Items {
		pods[string(list.Items[i].UID)] = &list.Items[i]
	}
	return errors.Join(s.workloadsFit(ctx, pods), s.jobsFit(ctx, pods), podsFit(pods), s.runtimeFits(pods),
		s.diskFits(pods), s.witnessFits(pods))
}

// workloadsFit compares Deployments and StatefulSets and the number of their pods with the desired ones.
func (s *site) workloadsFit(ctx context.Context, pods map[string]*core.Pod) error {
	var wrong []error
	for _, w := range s.churn.workloads {
		var err error
		is := 0
		for _, p := range pods {
			if w.has(p) {
				is++
			}
		}
		want := w.replicas
		if w.stateful {
			var set *apps.StatefulSet
			if set, err = s.client.AppsV1().StatefulSets(namespace).Get(ctx, w.name, meta.GetOptions{}); err == nil {
				err = setFits(set, want)
			}
		} else {
			var d *apps.Deployment
			if d, err = s.client.AppsV1().Deployments(namespace).Get(ctx, w.name, meta.GetOptions{}); err == nil {
				err = deploymentFits(d, want)
			}
		}
		if w.absent {
			want = 0
			if err == nil {
				err = errors.New("is still there")
			}
			if apierrors.IsNotFound(err) {
				err = nil
			}
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%s: %w", w.name, err))
		}
		if is != int(want) {
			wrong = append(wrong, fmt.Errorf("%s has %d pods, want %d", w.name, is, want))
		}
	}
	return errors.Join(wrong...)
}

func deploymentFits(d *apps.Deployment, want int32) error {
	s := d.Status
	if s.ObservedGeneration != d.Generation || d.DeletionTimestamp != nil || *d.Spec.Replicas != want ||
		s.Replicas != want || s.UpdatedReplicas != want || s.ReadyReplicas != want || s.AvailableReplicas != want {
		return fmt.Errorf("generation %d of %d, %d of %d replicas, %d new, %d ready, %d available",
			s.ObservedGeneration, d.Generation, s.Replicas, want, s.UpdatedReplicas, s.ReadyReplicas, s.AvailableReplicas)
	}
	return nil
}

func setFits(set *apps.StatefulSet, want int32) error {
	s := set.Status
	if s.ObservedGeneration != set.Generation || set.DeletionTimestamp != nil || *set.Spec.Replicas != want ||
		s.Replicas != want || s.ReadyReplicas != want || s.CurrentRevision != s.UpdateRevision {
		return fmt.Errorf("generation %d of %d, %d of %d replicas, %d ready, revision %s of %s",
			s.ObservedGeneration, set.Generation, s.Replicas, want, s.ReadyReplicas, s.CurrentRevision, s.UpdateRevision)
	}
	return nil
}

// jobsFit compares Jobs with their completions.
func (s *site) jobsFit(ctx context.Context, pods map[string]*core.Pod) error {
	list, err := s.client.BatchV1().Jobs(namespace).List(ctx, meta.ListOptions{})
	if err != nil {
		return err
	}
	var wrong []error
	left := map[string]*batch.Job{}
	for i := range list.Items {
		left[list.Items[i].Name] = &list.Items[i]
	}
	for _, j := range s.churn.jobs {
		is := left[j.name]
		delete(left, j.name)
		if err := j.fits(is); err != nil {
			wrong = append(wrong, fmt.Errorf("%s (%s): %w", j.name, j.work, err))
		}
	}
	for name := range left {
		wrong = append(wrong, fmt.Errorf("%s is still there", name))
	}
	for _, p := range pods {
		if name := p.Labels[workloadLabel]; strings.HasPrefix(name, "job-") && !slices.ContainsFunc(s.churn.jobs,
			func(j *job) bool { return j.name == name }) {
			wrong = append(wrong, fmt.Errorf("%s is left of a Job", p.Name))
		}
	}
	return errors.Join(wrong...)
}

// fits compares a Job with its object, nil if the API server has no object of the Job.
func (j *job) fits(is *batch.Job) error {
	if is == nil {
		return errors.New("is gone")
	}
	s := is.Status
	condition := ""
	for _, c := range s.Conditions {
		if c.Status == core.ConditionTrue && (c.Type == batch.JobComplete || c.Type == batch.JobFailed) {
			condition = string(c.Type) + c.Reason
		}
	}
	want := string(batch.JobComplete) + batch.JobReasonCompletionsReached
	if j.work == fail {
		want = string(batch.JobFailed) + batch.JobReasonBackoffLimitExceeded
	}
	if condition != want || s.Active > 0 || j.work != fail && s.Succeeded != j.completions ||
		j.work == fail && s.Succeeded != 0 {
		return fmt.Errorf("%q, %d active, %d failed, %d of %d succeeded", condition, s.Active, s.Failed, s.Succeeded,
			j.completions)
	}
	return nil
}

// podsFit returns pods that are neither ready nor terminal, and pods that are being deleted.
func podsFit(pods map[string]*core.Pod) error {
	var wrong []error
	for _, p := range pods {
		if p.DeletionTimestamp != nil || p.Spec.NodeName == "" || !ended(p) && !node.Ready(p) {
			wrong = append(wrong, fmt.Errorf("%s (%s) is %s on %q, deleted %v, %v %v", p.Name, p.UID, p.Status.Phase,
				p.Spec.NodeName, p.DeletionTimestamp, p.Status.Conditions, p.Status.ContainerStatuses))
		}
	}
	return errors.Join(wrong...)
}

// instances describes what a kill of the agent or of containerd must not change, by UID: containers and restart counts.
func (s *site) instances() map[string]string {
	s.t.Helper()
	list, err := s.client.CoreV1().Pods(namespace).List(s.t.Context(), meta.ListOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	all := map[string]string{}
	for _, p := range list.Items {
		for _, c := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
			all[fmt.Sprintf("%s of %s (%s)", c.Name, p.Name, p.UID)] = fmt.Sprintf("%s, %d restarts, %s", c.ContainerID,
				c.RestartCount, p.Status.Phase)
		}
	}
	return all
}

// commands returns an error unless kubectl runs a command in a pod that is ready, which reads the newest settings
// there, and prints the pod's log.
func (s *site) commands() error {
	ready := slices.DeleteFunc(s.observer.pods(), func(p *core.Pod) bool { return !node.Ready(p) })
	if len(ready) == 0 {
		return nil
	}
	p := ready[s.churn.r.IntN(len(ready))]
	ctx, cancel := context.WithTimeout(context.Background(), 2*requestTimeout)
	defer cancel()
	kubectl := func(args ...string) ([]byte, error) {
		return s.cluster.Command(ctx, append([]string{"-n", namespace}, args...)...).Output()
	}
	out, err := kubectl("exec", p.Name, "-c", "main", "--", "cat", "/settings/turn")
	if want := strconv.Itoa(s.churn.turn); err != nil || string(out) != want {
		return fmt.Errorf("the settings of %s are %q, want %q (%w)", p.Name, out, want, err)
	}
	out, err = kubectl("logs", p.Name, "-c", "main")
	if want := "run " + p.Name + "\n"; err != nil || string(out) != want {
		return fmt.Errorf("the log of %s is %q, want %q (%w)", p.Name, out, want, err)
	}
	return nil
}
