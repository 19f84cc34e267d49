package agent

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/config"
	"github.com/journalet/journalet/runtime/kubeletstate"
	"github.com/journalet/journalet/test/fakeapi"
	"github.com/journalet/journalet/test/must"
)

// kubeletStates returns what each start recorded of a kubelet.
func kubeletStates(t *testing.T, cfg *config.Config) (all []*journaletv1.KubeletState) {
	t.Helper()
	s, err := bus.OpenShared(t.Context(), filepath.Join(cfg.RootDir, "bus"))
	must.OK(t, err)
	for seq, last := s.Bounds(); seq <= last; seq++ {
		rec, err := s.Get(t.Context(), seq)
		must.OK(t, err)
		if k := rec.GetFact().GetAgentStarted(); k != nil {
			all = append(all, k.GetKubeletState())
		}
	}
	return all
}

// What a kubelet left is read by the first start alone, not after a lost journal either. A file that is damaged
// prevents no start.
func TestFirstStartReadsWhatAKubeletLeft(t *testing.T) {
	cfg := simulatedConfig(t)
	cfg.Once = true
	must.OK(t, os.MkdirAll(filepath.Join(cfg.RootDir, "pods", "uid-1"), 0o750))
	must.OK(t, os.WriteFile(filepath.Join(cfg.RootDir, "cpu_manager_state"),
		[]byte(`{"policyName":"static","defaultCpuSet":"0","entries":{"uid-1":{"main":"1"}},"checksum":0}`), 0o600))
	must.OK(t, os.WriteFile(filepath.Join(cfg.RootDir, "memory_manager_state"), []byte("?"), 0o600))
	for range 2 {
		must.OK(t, Run(t.Context(), cfg, slog.New(slog.DiscardHandler)))
		must.OK(t, os.RemoveAll(filepath.Join(cfg.RootDir, "volumes.boot"))) // as after a crash early in a first run
	}
	all := kubeletStates(t, cfg)
	if len(all) != 2 || all[0].GetPods()["uid-1"].GetExclusive()[0].GetCpus() != "1" || len(all[0].GetProblems()) != 1 ||
		all[1] != nil {
		t.Errorf("recorded: %v", all)
	}

	must.OK(t, os.RemoveAll(filepath.Join(cfg.RootDir, "bus")))
	must.OK(t, os.WriteFile(filepath.Join(cfg.RootDir, "volumes.boot"), []byte("boot\n"), 0o600))
	must.OK(t, Run(t.Context(), cfg, slog.New(slog.DiscardHandler)))
	if all := kubeletStates(t, cfg); len(all) != 1 || all[0] != nil {
		t.Errorf("recorded after a lost journal: %v", all)
	}
}

// A pod whose resize was pending when a kubelet ended requests more than the node has. It is admitted with what the
// kubelet had allocated, and its resize stays pending.
func TestPendingResizeOfAKubeletStaysPending(t *testing.T) {
	requests := func(cpu string) corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}}
	}
	cfg, pod := simulatedConfig(t), apiPod(t, `{}`)
	pod.Spec.Containers[0].Resources = requests("100k")
	n := startNodeIn(t, cfg, fakeapi.New(), pod, func(uid string) {
		must.OK(t, os.MkdirAll(cfg.RootDir, 0o750))
		_, err := kubeletstate.Write(cfg.RootDir, kubeletstate.Given{Allocated: map[string]kubeletstate.PodResources{
			uid: {Containers: map[string]corev1.ResourceRequirements{"main": requests("100m")}},
		}})
		must.OK(t, err)
	})
	n.await("its resize is pending", func(s *corev1.PodStatus) bool {
		return condition(s, corev1.PodResizePending).Reason == corev1.PodReasonDeferred &&
			s.ContainerStatuses[0].AllocatedResources.Cpu().String() == "100m"
	})
	n.change("resize", func(p *corev1.Pod) { p.Spec.Containers[0].Resources = requests("200m") })
	p := n.await("it is resized", func(s *corev1.PodStatus) bool {
		return condition(s, corev1.PodResizePending).Type == "" &&
			s.ContainerStatuses[0].AllocatedResources.Cpu().String() == "200m"
	})
	if c := p.Status.ContainerStatuses[0]; c.RestartCount != 0 {
		t.Errorf("its container was restarted: %v", c)
	}
}
