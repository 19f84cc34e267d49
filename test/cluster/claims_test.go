//go:build cluster

package cluster

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	resource "k8s.io/api/resource/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	health "k8s.io/kubelet/pkg/apis/dra-health/v1"
	dra "k8s.io/kubelet/pkg/apis/dra/v1"
	"k8s.io/utils/ptr"

	"github.com/journalet/journalet/runtime/plugins"
	"github.com/journalet/journalet/test/fakedra"
	"github.com/journalet/journalet/test/must"
)

// claimed has a pod with a claim that the scheduler allocates, and a pod with an extended resource: the scheduler
// creates a claim for it.
const claimed = `
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu.example.com}
spec:
  selectors: [{cel: {expression: 'device.driver == "gpu.example.com"'}}]
  extendedResourceName: example.com/gpu
---
apiVersion: resource.k8s.io/v1
kind: ResourceClaimTemplate
metadata: {name: one}
spec:
  spec:
    devices: {requests: [{name: r, exactly: {deviceClassName: gpu.example.com}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: claimed}
spec:
  terminationGracePeriodSeconds: 1
  resourceClaims: [{name: gpu, resourceClaimTemplateName: one}]
  containers:
  - name: c
    image: docker.io/library/busybox:1.36
    command: [sleep, '1000']
    resources: {claims: [{name: gpu}]}
---
apiVersion: v1
kind: Pod
metadata: {name: extended}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: c
    image: docker.io/library/busybox:1.36
    command: [sleep, '1000']
    resources: {limits: {example.com/gpu: 1}}
`

// offers has the node offer two devices.
func (n *ours) offers(t *testing.T) {
	t.Helper()
	_, err := n.MustClient(t).ResourceV1().ResourceSlices().Create(t.Context(), &resource.ResourceSlice{
		ObjectMeta: meta.ObjectMeta{Name: "ours-gpu"},
		Spec: resource.ResourceSliceSpec{
			Driver: "gpu.example.com", NodeName: ptr.To("ours"),
			Pool:    resource.ResourcePool{Name: "pool", ResourceSliceCount: 1},
			Devices: []resource.Device{{Name: "d1"}, {Name: "d2"}},
		},
	}, meta.CreateOptions{})
	must.OK(t, err)
}

// claims has a DRA driver serve a pod, report the health of its device, and leave.
func (n *ours) claims(t *testing.T) {
	slicesOf := n.MustClient(t).ResourceV1().ResourceSlices()
	n.offers(t)
	d := &fakedra.Driver{
		Name: "gpu.example.com", Health: make(chan *health.NodeWatchResourcesResponse, 1),
		Prepared: func(r *dra.NodePrepareResourcesResponse) {
			for _, c := range r.GetClaims() {
				c.Devices = []*dra.Device{{PoolName: "pool", DeviceName: "d1"}}
			}
		},
	}
	dir := filepath.Join(n.NodeDir("ours"), "root", plugins.RegistryDir)
	_, stop := fakedra.Start(t, d, dir)
	n.kubectl(t, claimed, "apply", "-f", "-")
	n.kubectl(t, "", "wait", "--for=condition=Ready", "pod/claimed", "pod/extended", "--timeout=60s")
	if name := n.kubectl(t, "", "get", "pod", "extended", "-o",
		"jsonpath={.status.extendedResourceClaimStatus.resourceClaimName}"); name == "" {
		t.Error("the scheduler has created no claim for an extended resource, and the pod runs")
	}
	has := func(want string) {
		t.Helper()
		eventually(t, func() error {
			got := n.kubectl(t, "", "get", "pod", "claimed", "-o",
				"jsonpath={.status.containerStatuses[0].allocatedResourcesStatus}")
			if got != want {
				return fmt.Errorf("the status has %s, and not %s", got, want)
			}
			return nil
		})
	}
	const format = `[{"name":"claim:gpu","resources":[{"health":"%s",%s"resourceID":"gpu.example.com/pool/d1"}]}]`
	has(fmt.Sprintf(format, "Unknown", ""))
	device := &health.DeviceIdentifier{PoolName: "pool", DeviceName: "d1"}
	d.Health <- &health.NodeWatchResourcesResponse{Devices: []*health.DeviceHealth{
		{Device: device, Health: health.HealthStatus_UNHEALTHY, Message: "too hot"},
	}}
	has(fmt.Sprintf(format, "Unhealthy", `"message":"too hot",`))
	stop()
	has(fmt.Sprintf(format, "Unknown", ""))
	begun := time.Now()
	eventuallyWithin(t, time.Minute, func() error {
		list, err := slicesOf.List(t.Context(), meta.ListOptions{})
		if err == nil && len(list.Items) > 0 {
			err = fmt.Errorf("the ResourceSlices of the driver that has left are still there")
		}
		return err
	})
	t.Logf("the slices of the driver are gone after another %s", time.Since(begun).Round(time.Second))
	fakedra.Start(t, d, dir)
	n.kubectl(t, "", "delete", "pod", "claimed", "extended", "--timeout=60s")
	var got []string
	for _, call := range d.Calls() {
		what, _, _ := strings.Cut(call, " ")
		got = append(got, what)
	}
	if !slices.Equal(got, []string{"prepare", "prepare", "unprepare", "unprepare"}) {
		t.Errorf("the driver was called %q", got)
	}
}
