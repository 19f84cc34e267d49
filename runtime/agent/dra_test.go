package agent

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/journalet/journalet/runtime/config"
	"github.com/journalet/journalet/runtime/plugins"
	"github.com/journalet/journalet/test/fakeapi"
	"github.com/journalet/journalet/test/fakedra"
	"github.com/journalet/journalet/test/must"
)

// claimNode is an agent with the simulated runtime and a directory of plugins, which may be started again.
type claimNode struct {
	*clusterNode
	cfg  *config.Config
	stop func()
}

// begin starts the agent.
func (n *claimNode) begin() {
	ctx, stop := context.WithCancel(context.WithoutCancel(n.Context()))
	ended := make(chan error, 1)
	go func() { ended <- Run(ctx, n.cfg, slog.New(slog.DiscardHandler)) }()
	n.stop = func() {
		stop()
		must.OK(n, <-ended)
	}
}

// sent reports whether an event with this text was sent.
func (n *claimNode) sent(text string) bool {
	return slices.ContainsFunc(n.api.Requests("create events"), func(r fakeapi.APIRequest) bool {
		return strings.Contains(string(r.Body), text)
	})
}

func TestClaimsOfAPodArePreparedAndUnprepared(t *testing.T) {
	cfg, server := simulatedConfig(t), fakeapi.New()
	cfg.EnableServer = false // its port is the machine's
	cfg.Cluster.Kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	must.OK(t, os.WriteFile(cfg.Cluster.Kubeconfig, []byte(fakeapi.Kubeconfig(server.Start(t), "{}")), 0o600))
	pod := apiPod(t, `resourceClaims: [{name: gpu, resourceClaimTemplateName: t}]`)
	pod.Spec.Containers[0].Resources.Claims = []corev1.ResourceClaim{{Name: "gpu"}}
	uid := server.Create("pods", pod)
	n := &claimNode{clusterNode: &clusterNode{T: t, api: server, pod: pod.Name}, cfg: cfg}
	n.change("status", func(p *corev1.Pod) {
		p.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "gpu", ResourceClaimName: ptr.To("web-gpu")}}
	})
	n.begin()
	defer func() { n.stop() }()
	must.Until(n, time.Minute, "an event names the claim", func() bool {
		return n.sent("Failed to prepare dynamic resources: fetch ResourceClaim web-gpu")
	})

	claim := &resourcev1.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web-gpu",
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "v1", Kind: "Pod", Name: "web", UID: types.UID(uid), Controller: ptr.To(true),
		}}}}
	claimUID := server.Create("resourceclaims.resource.k8s.io", claim)
	server.Change("resourceclaims.resource.k8s.io", "status", "default", "web-gpu", claim, func() {
		claim.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{
			Resource: "pods", Name: "web", UID: types.UID(uid),
		}}
		claim.Status.Allocation = &resourcev1.AllocationResult{Devices: resourcev1.DeviceAllocationResult{
			Results: []resourcev1.DeviceRequestAllocationResult{{
				Request: "r", Driver: "gpu.example.com", Pool: "p", Device: "d",
			}}}}
	})
	must.Until(n, time.Minute, "an event names the driver", func() bool {
		return n.sent("DRA driver gpu.example.com is not registered")
	})

	driver := &fakedra.Driver{Name: "gpu.example.com"}
	fakedra.Start(t, driver, filepath.Join(cfg.RootDir, plugins.RegistryDir))
	n.await("runs", func(s *corev1.PodStatus) bool { return s.Phase == corev1.PodRunning })
	if got := driver.Calls(); !slices.Equal(got, []string{"prepare " + claimUID}) {
		t.Errorf("the driver was called %q", got)
	}

	n.stop()
	n.begin()
	server.Delete("pods", "default", "web", 1)
	must.Until(n, time.Minute, "the pod is gone", func() bool {
		return !server.Get("pods", "default", "web", new(corev1.Pod))
	})
	if got := driver.Calls(); !slices.Equal(got, []string{"unprepare " + claimUID}) {
		t.Errorf("after a restart the driver was called %q", got)
	}
}
