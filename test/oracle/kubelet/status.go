package kubelet

import (
	"context"
	"fmt"
	"reflect"
	"unsafe"

	v1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/kubelet"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/prober/results"

	"github.com/journalet/journalet/test/oracle/fakecri"
)

//go:linkname generateAPIPodStatus k8s.io/kubernetes/pkg/kubelet.(*Kubelet).generateAPIPodStatus
func generateAPIPodStatus(
	kl *kubelet.Kubelet, ctx context.Context, pod *v1.Pod, podStatus *kubecontainer.PodStatus, podIsTerminal bool,
) v1.PodStatus

// APIStatus returns the status that the kubelet reports of a pod. terminal: the pod is in a terminal phase.
func (k *Kubelet) APIStatus(ctx context.Context, pod *v1.Pod, terminal bool) (v1.PodStatus, error) {
	seen, err := k.Status(ctx, pod)
	if err != nil {
		return v1.PodStatus{}, fmt.Errorf("status of the pod: %w", err)
	}
	return generateAPIPodStatus(k.kl, ctx, pod, seen, terminal), nil
}

// SetStatus sets the pod's last reported status.
func (k *Kubelet) SetStatus(pod *v1.Pod, status v1.PodStatus) {
	k.status.SetPodStatus(klog.Background(), pod, status)
}

// SetProbes sets the results of a container's probes: "success", "failure", or "" for none.
func (k *Kubelet) SetProbes(pod *v1.Pod, id, liveness, readiness, startup string) {
	for _, one := range []struct {
		in    results.Manager
		found string
	}{{k.Liveness, liveness}, {k.Readiness, readiness}, {k.Startup, startup}} {
		result := results.Failure
		switch one.found {
		case "":
			continue
		case "success":
			result = results.Success
		}
		one.in.Set(kubecontainer.ContainerID{Type: fakecri.Name, ID: id}, result, pod)
	}
}

// The kubelet's numbers of kinds of probes.
const (
	probeLiveness = iota
	probeReadiness
	probeStartup
)

// Probe adds workers for a pod's probes to the kubelet's prober. They do not run.
func (k *Kubelet) Probe(pod *v1.Pod) {
	workers := reflect.ValueOf(k.prober).Elem().FieldByName("workers")
	workers = reflect.NewAt(workers.Type(), unsafe.Pointer(workers.UnsafeAddr())).Elem()
	add := func(container string, kind int) {
		key := reflect.New(workers.Type().Key()).Elem()
		for i, v := range []any{pod.UID, container, kind} {
			f := key.Field(i)
			reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem().Set(reflect.ValueOf(v).Convert(f.Type()))
		}
		workers.SetMapIndex(key, reflect.New(workers.Type().Elem().Elem()))
	}
	for _, list := range [][]v1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range list {
			if c.LivenessProbe != nil {
				add(c.Name, probeLiveness)
			}
			if c.ReadinessProbe != nil {
				add(c.Name, probeReadiness)
			}
			if c.StartupProbe != nil {
				add(c.Name, probeStartup)
			}
		}
	}
}
