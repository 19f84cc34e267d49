package persistentvolume

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/journalet/journalet/runtime/cluster/client"
	"github.com/journalet/journalet/test/fakeapi"
	"github.com/journalet/journalet/test/must"
)

func TestTheStatusOfAClaimIsPatchedAtTheVersionThatWasRead(t *testing.T) {
	server := fakeapi.New()
	claim := sized(turn(pending, "2Gi"))
	claim.ObjectMeta = metav1.ObjectMeta{Namespace: "shop", Name: "data"}
	claim.Status.Conditions = []corev1.PersistentVolumeClaimCondition{
		{Type: corev1.PersistentVolumeClaimFileSystemResizePending, Status: corev1.ConditionTrue},
		{Type: corev1.PersistentVolumeClaimVolumeModifyVolumeError, Status: corev1.ConditionTrue},
	}
	server.Create("persistentvolumeclaims", claim)
	c, err := client.New(client.Options{
		Config: &rest.Config{Host: server.Start(t)}, NodeName: nodeName, ContentType: "application/json",
	})
	must.OK(t, err)
	api := FromAPI(c)
	read, err := api.Claim(t.Context(), "shop", "data")
	must.OK(t, err)
	after := read.DeepCopy()
	setResized(after, gigs("2Gi")[corev1.ResourceStorage])
	patch, err := claimPatch(read, after)
	must.OK(t, err)
	got, err := api.PatchClaim(t.Context(), "shop", "data", patch)
	must.OK(t, err)
	if s := got.Status; s.Capacity.Storage().String() != "2Gi" || len(s.AllocatedResourceStatuses) > 0 ||
		len(s.Conditions) != 1 || s.Conditions[0].Type != corev1.PersistentVolumeClaimVolumeModifyVolumeError ||
		s.Phase != corev1.ClaimBound {
		t.Errorf("the claim has %+v", s)
	}
	if _, err := api.PatchClaim(t.Context(), "shop", "data", patch); !apierrors.IsConflict(err) {
		t.Errorf("a patch of an older claim: %v", err)
	}
	if n := len(server.Requests("patch persistentvolumeclaims/status")); n != 2 {
		t.Errorf("%d patches of the status", n)
	}
}
