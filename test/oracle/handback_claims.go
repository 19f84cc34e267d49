package oracle

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/kubeletstate"
	"github.com/journalet/journalet/test/oracle/kubelet"
)

// claimsOf returns claims of the pod with a number: one that all pods share, and one of its own, which is in doubt for
// each third pod.
func claimsOf(i int) []*journaletv1.PodClaim {
	own := &journaletv1.PodClaim{
		Claim: &journaletv1.ResourceClaim{
			Namespace: "default", Name: fmt.Sprint("own-", i), Uid: fmt.Sprint("uid-own-", i), PodClaims: []string{"own"},
			Prepare: []string{"a.example.com", "b.example.com"}, Unprepare: []string{"b.example.com", "c.example.com"},
		},
		Stage: journaletv1.ClaimStage_CLAIM_STAGE_PREPARING,
	}
	if i%3 != 0 {
		own.Stage = journaletv1.ClaimStage_CLAIM_STAGE_PREPARED
		own.Devices = []*journaletv1.ClaimDevice{
			{
				Driver: "a.example.com", Pool: "p", Device: "d", Requests: []string{"one"},
				CdiDevices: []string{"example.com/a=1"},
			},
			{Driver: "b.example.com", Pool: "p", Device: "d", ShareId: "share", CdiDevices: []string{"example.com/b=1"}},
		}
	}
	shared := &journaletv1.PodClaim{
		Claim: &journaletv1.ResourceClaim{
			Namespace: "default", Name: "shared", Uid: "uid-shared", PodClaims: []string{"shared"},
			Prepare: []string{"a.example.com"}, Unprepare: []string{"a.example.com"},
		},
		Stage: journaletv1.ClaimStage_CLAIM_STAGE_PREPARED,
		Devices: []*journaletv1.ClaimDevice{
			{Driver: "a.example.com", Pool: "p", Device: "s", CdiDevices: []string{"example.com/s=1", "example.com/s=2"}},
		},
	}
	if i%4 == 3 {
		shared.Stage = journaletv1.ClaimStage_CLAIM_STAGE_UNPREPARED
	}
	return []*journaletv1.PodClaim{shared, own}
}

// noted is what a kubelet has to read of these claims of pods, in the form of kubelet.NotedClaims.
func noted(pods []given) string {
	var own []string
	var sharing []string
	for i, p := range pods {
		if i%4 != 3 {
			sharing = append(sharing, string(p.pod.UID))
		}
		a, b := ` p/d "" [one] [example.com/a=1]`, ` p/d "share" [] [example.com/b=1]`
		if i%3 == 0 {
			a, b = "", ""
		}
		own = append(own, fmt.Sprintf("default/own-%[1]d uid-own-%[1]d of [%[2]s]: a.example.com prepares true unprepares "+
			"false%[3]s b.example.com prepares true unprepares true%[4]s c.example.com prepares false unprepares true\n",
			i, p.pod.UID, a, b))
	}
	slices.Sort(own)
	slices.Sort(sharing)
	shared := ""
	if len(sharing) > 0 {
		shared = fmt.Sprintf("default/shared uid-shared of %s: a.example.com prepares true unprepares true p/s \"\" [] "+
			"[example.com/s=1 example.com/s=2]\n", sharing)
	}
	return strings.Join(own, "") + shared
}

// compareClaims compares what a kubelet reads of the claims that were written with what the pods have, and the devices
// that it gives to a container which it starts again. It returns whether both agree.
func compareClaims(c *testCase, dir string, pods []given) bool {
	has, err := kubelet.NotedClaims(dir, kubeletstate.ClaimFile)
	if want := noted(pods); err != nil || has != want {
		c.differs("the claims of pods in "+kubeletstate.ClaimFile, want, fmt.Sprint(has, err))
		return false
	}
	for i := range pods {
		if i%3 == 0 || i%4 == 3 {
			continue // a claim of the pod is not prepared
		}
		name, sharing := fmt.Sprint("own-", i), "shared"
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", UID: pods[i].pod.UID}}
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{
			{Name: "own", ResourceClaimName: &name}, {Name: "shared", ResourceClaimName: &sharing},
		}
		container := &corev1.Container{Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{
			{Name: "own", Request: "one"}, {Name: "shared"},
		}}}
		want := []string{"example.com/a=1", "example.com/b=1", "example.com/s=1", "example.com/s=2"}
		got, err := kubelet.ClaimDevices(dir, p, container)
		slices.Sort(got) // the kubelet has them in the order of a map
		if err != nil || !slices.Equal(got, want) {
			c.differs("the devices of claims after a hand-back", want, fmt.Sprint(got, err))
			return false
		}
	}
	c.count("handed back with claims")
	return true
}
