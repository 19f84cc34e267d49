//go:build chaos && cluster

package chaos

import (
	"fmt"
	"strconv"

	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/journalet/journalet/test/node"
)

const (
	// workloadLabel names a pod's workload, workLabel what its container does.
	workloadLabel, workLabel = "workload", "work"
	turnAnnotation           = "turn"
	// retries counts the runs of a container whose work is "retry", failingCode is the exit code of failing work.
	retries, failingCode = 3, 3
	// patience is how many pods of a Job may be lost or deleted; failingPatience is the same if its work fails.
	patience, failingPatience = 20, 1
)

// What a container does: see the command witness.
const (
	idle        = "idle"
	ignoresTerm = "ignore-sigterm"
	succeed     = "succeed"
	fail        = "fail"
	retry       = "retry"
)

// workload is a Deployment or StatefulSet as it is to be.
type workload struct {
	name     string
	stateful bool
	change   func(*core.PodSpec)
	work     string
	replicas int32
	turn     int
	absent   bool
}

// workloads are of all kinds that differ for a node.
func workloads() []*workload {
	return []*workload{
		{name: "plain", work: idle, change: func(*core.PodSpec) {}},
		{name: "staged", work: idle, change: staged},
		{name: "killed", work: ignoresTerm, change: limited},
		{name: "hooked", work: idle, change: hooked},
		{name: "ordered", work: idle, change: probed, stateful: true},
		{name: "parallel", work: ignoresTerm, change: func(*core.PodSpec) {}, stateful: true},
		{name: "kept", work: idle, change: limited, stateful: true},
	}
}

// staged has an init container and a sidecar.
func staged(p *core.PodSpec) {
	always := core.ContainerRestartPolicyAlways
	side := node.Shell("side", node.Image, node.Idle)
	side.RestartPolicy = &always
	p.InitContainers = []core.Container{node.Shell("init", node.Image, "echo init"), side}
}

// limited has requests and limits, and so a cgroup of another class.
func limited(p *core.PodSpec) {
	quantity := core.ResourceList{
		core.ResourceCPU: resource.MustParse("100m"), core.ResourceMemory: resource.MustParse("64Mi"),
	}
	p.Containers[0].Resources = core.ResourceRequirements{
		Requests: core.ResourceList{core.ResourceCPU: resource.MustParse("1m")}, Limits: quantity,
	}
}

// hooked has a preStop hook and a volume in memory.
func hooked(p *core.PodSpec) {
	p.Containers[0].Lifecycle = &core.Lifecycle{PreStop: &core.LifecycleHandler{Exec: probe()}}
	p.Volumes = append(p.Volumes, core.Volume{Name: "memory", VolumeSource: core.VolumeSource{
		EmptyDir: &core.EmptyDirVolumeSource{Medium: core.StorageMediumMemory},
	}})
	p.Containers[0].VolumeMounts = append(p.Containers[0].VolumeMounts,
		core.VolumeMount{Name: "memory", MountPath: "/memory"})
}

// probed is ready by a probe.
func probed(p *core.PodSpec) {
	p.Containers[0].ReadinessProbe = &core.Probe{
		ProbeHandler: core.ProbeHandler{Exec: probe()}, PeriodSeconds: 5, TimeoutSeconds: 10,
	}
}

func probe() *core.ExecAction {
	return &core.ExecAction{Command: []string{"/witness/bin/witness", "probe"}}
}

// template returns pods that mount a ConfigMap, a Secret, a token, and the directory of the witness.
func template(name, work, witness string, turn int) core.PodTemplateSpec {
	grace := int64(2)
	field := func(path string) *core.EnvVarSource {
		return &core.EnvVarSource{FieldRef: &core.ObjectFieldSelector{FieldPath: path}}
	}
	password := &core.SecretKeySelector{Key: "password"}
	password.Name = "credentials"
	settings := &core.ConfigMapVolumeSource{}
	settings.Name = "settings"
	return core.PodTemplateSpec{
		ObjectMeta: meta.ObjectMeta{
			Labels:      map[string]string{workloadLabel: name, workLabel: work},
			Annotations: map[string]string{turnAnnotation: strconv.Itoa(turn)},
		},
		Spec: core.PodSpec{
			TerminationGracePeriodSeconds: &grace,
			Volumes: []core.Volume{
				{Name: "witness", VolumeSource: core.VolumeSource{HostPath: &core.HostPathVolumeSource{Path: witness}}},
				{Name: "settings", VolumeSource: core.VolumeSource{ConfigMap: settings}},
				{Name: "credentials", VolumeSource: core.VolumeSource{
					Secret: &core.SecretVolumeSource{SecretName: "credentials"},
				}},
			},
			Containers: []core.Container{{
				Name: "main", Image: node.Image, ImagePullPolicy: core.PullIfNotPresent,
				Command: []string{"/witness/bin/witness", work, strconv.Itoa(retries)},
				Env: []core.EnvVar{
					{Name: "POD", ValueFrom: field("metadata.name")}, {Name: "POD_UID", ValueFrom: field("metadata.uid")},
					{Name: "PASSWORD", ValueFrom: &core.EnvVarSource{SecretKeyRef: password}},
				},
				VolumeMounts: []core.VolumeMount{
					{Name: "witness", MountPath: "/witness"}, {Name: "settings", MountPath: "/settings"},
					{Name: "credentials", MountPath: "/credentials"},
				},
			}},
		},
	}
}

// has reports whether a pod is one of the workload's.
func (w *workload) has(p *core.Pod) bool { return p.Labels[workloadLabel] == w.name }

// template returns the workload's pods.
func (w *workload) template(witness string) core.PodTemplateSpec {
	t := template(w.name, w.work, witness, w.turn)
	w.change(&t.Spec)
	return t
}

func (w *workload) selector() *meta.LabelSelector {
	return &meta.LabelSelector{MatchLabels: map[string]string{workloadLabel: w.name}}
}

func (w *workload) deployment(witness string) *apps.Deployment {
	d := &apps.Deployment{
		ObjectMeta: meta.ObjectMeta{Name: w.name},
		Spec:       apps.DeploymentSpec{Replicas: &w.replicas, Selector: w.selector(), Template: w.template(witness)},
	}
	if w.name == "hooked" {
		d.Spec.Strategy.Type = apps.RecreateDeploymentStrategyType
	}
	return d
}

func (w *workload) statefulSet(witness string) *apps.StatefulSet {
	set := &apps.StatefulSet{
		ObjectMeta: meta.ObjectMeta{Name: w.name},
		Spec: apps.StatefulSetSpec{
			Replicas: &w.replicas, Selector: w.selector(), Template: w.template(witness), ServiceName: w.name,
		},
	}
	if w.name == "parallel" {
		set.Spec.PodManagementPolicy = apps.ParallelPodManagement
	}
	return set
}

// patch returns the merge patch that brings the workload's object to its replicas and turn.
func (w *workload) patch() []byte {
	return fmt.Appendf(nil, `{"spec":{"replicas":%d,"template":{"metadata":{"annotations":{%q:"%d"}}}}}`,
		w.replicas, turnAnnotation, w.turn)
}

// job is a Job as it is to be.
type job struct {
	name                     string
	work                     string
	completions, parallelism int32
	harmed                   bool // one of its pods was deleted
}

func (j *job) object(witness string) *batch.Job {
	limit := int32(patience)
	t := template(j.name, j.work, witness, 0)
	t.Spec.RestartPolicy = core.RestartPolicyNever
	switch j.work {
	case retry:
		t.Spec.RestartPolicy = core.RestartPolicyOnFailure
	case fail:
		limit = failingPatience
	}
	return &batch.Job{
		ObjectMeta: meta.ObjectMeta{Name: j.name},
		Spec: batch.JobSpec{
			Completions: &j.completions, Parallelism: &j.parallelism, BackoffLimit: &limit, Template: t,
		},
	}
}
