package dra

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/journalet/journalet/test/must"
)

// reserved returns a claim that is allocated to a pod with a device of each driver.
func reserved(name, uid string, drivers ...string) *resourcev1.ResourceClaim {
	c := &resourcev1.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: name, UID: types.UID("uid-" + name)},
	}
	c.Status.ReservedFor = []resourcev1.ResourceClaimConsumerReference{{
		Resource: "pods", Name: "web", UID: types.UID(uid),
	}}
	c.Status.Allocation = new(resourcev1.AllocationResult)
	for _, d := range drivers {
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results,
			resourcev1.DeviceRequestAllocationResult{Request: "r", Driver: d, Pool: "p", Device: "x"})
	}
	return c
}

func claimingPod(all ...corev1.PodResourceClaim) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "web", UID: "u"},
		Spec:       corev1.PodSpec{ResourceClaims: all},
	}
}

func named(pod, claim string) corev1.PodResourceClaim {
	return corev1.PodResourceClaim{Name: pod, ResourceClaimName: &claim}
}

func created(pod string) corev1.PodResourceClaim {
	return corev1.PodResourceClaim{Name: pod, ResourceClaimTemplateName: ptr.To("template")}
}

func TestClaimsAreReadByNameAndByStatus(t *testing.T) {
	pod := claimingPod(named("a", "shared"), created("b"), created("none"), named("c", "shared"))
	live := pod.DeepCopy()
	live.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{
		{Name: "b", ResourceClaimName: ptr.To("web-b")}, {Name: "none"},
	}
	own := reserved("web-b", "u", nic)
	own.OwnerReferences = []metav1.OwnerReference{{UID: "u", Controller: ptr.To(true)}}
	own.Status.Allocation.Devices.Results[0].SkipNodeOperations = []resourcev1.SkipNodeOperation{
		resourcev1.SkipNodeOperationNodeUnprepareResources}
	o := &objects{pod: live, claims: map[string]*resourcev1.ResourceClaim{
		"shared": reserved("shared", "u", nic, gpu, gpu), "web-b": own,
	}}
	all, err := New(Options{Objects: o}).Read(t.Context(), pod, "")
	must.OK(t, err)
	text := ""
	for _, c := range all {
		text += fmt.Sprintln(c.GetPodClaims(), c.GetNamespace(), c.GetName(), c.GetUid(), c.GetPrepare(), c.GetUnprepare())
	}
	if want := "[a c] d shared uid-shared [gpu.example.com nic.example.com] [gpu.example.com nic.example.com]\n" +
		"[b] d web-b uid-web-b [nic.example.com] []\n"; text != want {
		t.Errorf("got\n%swant\n%s", text, want)
	}
}

func TestClaimThatThePodMayNotUseIsRefused(t *testing.T) {
	unallocated := reserved("x", "u")
	unallocated.Status.Allocation = nil
	another := reserved("x", "u", gpu)
	another.Name = "y"
	for want, c := range map[string]struct {
		claim  *resourcev1.ResourceClaim
		source corev1.PodResourceClaim
		status string
	}{
		"fetch ResourceClaim x: ":                   {source: named("a", "x")},
		"not allowed to use ResourceClaim x":        {claim: reserved("x", "another", gpu), source: named("a", "x")},
		"ResourceClaim x: not allocated":            {claim: unallocated, source: named("a", "x")},
		"another ResourceClaim than x":              {claim: another, source: named("a", "x")},
		"ResourceClaim not created yet":             {source: created("a")},
		"was not created for Pod d/web (Pod is not": {claim: reserved("x", "u", gpu), source: created("a"), status: "x"},
		"none of the supported fields are set":      {source: corev1.PodResourceClaim{Name: "a"}},
	} {
		pod := claimingPod(c.source)
		live := pod.DeepCopy()
		if c.status != "" {
			live.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "a", ResourceClaimName: &c.status}}
		}
		o := &objects{pod: live, claims: map[string]*resourcev1.ResourceClaim{}}
		if c.claim != nil {
			o.claims["x"] = c.claim
		}
		if _, err := New(Options{Objects: o}).Read(t.Context(), pod, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	o := &objects{pod: claimingPod()}
	o.pod.UID = "new"
	if _, err := New(Options{Objects: o}).Read(t.Context(), claimingPod(created("a")), ""); err == nil ||
		!strings.Contains(err.Error(), "another pod d/web, with UID new") {
		t.Errorf("got %v", err)
	}
	many := claimingPod(make([]corev1.PodResourceClaim, maxClaims+1)...)
	if _, err := New(Options{}).Read(t.Context(), many, ""); err == nil || !strings.Contains(err.Error(), "at most 128") {
		t.Errorf("got %v", err)
	}
}

func TestAllocationDiffersWhereTheDevicesDo(t *testing.T) {
	seen := map[string]string{}
	for name, change := range map[string]func(*resourcev1.DeviceRequestAllocationResult){
		"as it was": func(*resourcev1.DeviceRequestAllocationResult) {},
		"device":    func(r *resourcev1.DeviceRequestAllocationResult) { r.Device = "another" },
		"pool":      func(r *resourcev1.DeviceRequestAllocationResult) { r.Pool = "another" },
		"driver":    func(r *resourcev1.DeviceRequestAllocationResult) { r.Driver = nic },
		"share": func(r *resourcev1.DeviceRequestAllocationResult) {
			share := types.UID("share")
			r.ShareID = &share
		},
	} {
		claim := reserved("x", "u", gpu)
		change(&claim.Status.Allocation.Devices.Results[0])
		o := &objects{claims: map[string]*resourcev1.ResourceClaim{"x": claim}}
		all, err := New(Options{Objects: o}).Read(t.Context(), claimingPod(named("a", "x")), "")
		must.OK(t, err)
		digest := all[0].GetAllocation()
		if other, is := seen[digest]; is || len(digest) != 32 {
			t.Errorf("%s and %s have the allocation %q", name, other, digest)
		}
		seen[digest] = name
	}
}

func TestClaimOfExtendedResourcesIsReadLast(t *testing.T) {
	o := &objects{claims: map[string]*resourcev1.ResourceClaim{
		"shared": reserved("shared", "u", nic), "extended": reserved("extended", "u", gpu),
	}}
	all, err := New(Options{Objects: o}).Read(t.Context(), claimingPod(named("a", "shared")), "extended")
	must.OK(t, err)
	if len(all) != 2 || all[0].GetExtended() || !all[1].GetExtended() || all[1].GetName() != "extended" ||
		len(all[1].GetPodClaims()) > 0 {
		t.Errorf("got %v", all)
	}
	all, err = New(Options{Objects: o}).Read(t.Context(), claimingPod(named("a", "shared")), "shared")
	must.OK(t, err)
	if len(all) != 1 || !all[0].GetExtended() || len(all[0].GetPodClaims()) != 1 {
		t.Errorf("one claim for both: %v", all)
	}
	_, err = New(Options{Objects: o}).Read(t.Context(), claimingPod(), "gone")
	if err == nil || !strings.Contains(err.Error(), "fetch ResourceClaim gone") {
		t.Errorf("a claim that is not there: %v", err)
	}
}
