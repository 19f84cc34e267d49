package simulation

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/journalet/journalet/runtime/persistentvolume"
)

// attacher is the control plane's part in volumes: it attaches the volumes that pods of the node need, and detaches the
// volumes that the Node does not have in use, as the controller of attachments does.
type attacher struct {
	// devices are the handles of the volumes that are attached, attaching the handles of the volumes that will be.
	devices, attaching map[string]bool
	// wanted are the handles of the volumes that pods needed at the last comparison. The next one detaches by these: a
	// controller sees a new pod late, but reads the Node.
	wanted    map[string]bool
	slowUntil time.Duration
	// tokens are the tokens that pods have got.
	tokens map[string]podToken
}

func newAttacher() *attacher {
	return &attacher{devices: map[string]bool{}, attaching: map[string]bool{}, tokens: map[string]podToken{}}
}

// attacherPause is the time between two comparisons.
const attacherPause = time.Second

// startAttacher starts to attach and detach volumes.
func (s *sim) startAttacher() {
	if s.config.attached {
		s.later(attacherPause, func() {
			s.api.attach()
			s.startAttacher()
		})
	}
}

// uniqueName is the name of a volume in the status of the Node.
func uniqueName(handle string) corev1.UniqueVolumeName {
	return corev1.UniqueVolumeName("kubernetes.io/csi/" + blockDriver + "^" + handle)
}

// attach compares what is attached with what pods need and the Node has in use.
func (a *apiServer) attach() {
	x, wanted := a.attacher, map[string]bool{}
	for _, p := range a.pods {
		if !isBound(p) || hasEnded(p) {
			continue
		}
		for i := range p.Spec.Volumes {
			if c := p.Spec.Volumes[i].PersistentVolumeClaim; c != nil && claimsOfPlan[c.ClaimName] == blockDriver {
				wanted[handleOf(c.ClaimName)] = true
			}
		}
	}
	for _, handle := range slices.Sorted(maps.Keys(wanted)) {
		if x.devices[handle] || x.attaching[handle] {
			continue
		}
		took := between(a.noise, 10*time.Millisecond, 3*time.Second)
		if a.sim.clock.uptime < x.slowUntil {
			took = between(a.noise, time.Second, 4*time.Minute)
		}
		x.attaching[handle] = true
		a.sim.later(took, func() {
			delete(x.attaching, handle)
			x.devices[handle] = true
			a.showAttached()
		})
	}
	before := x.wanted
	x.wanted = wanted
	for _, handle := range slices.Sorted(maps.Keys(x.devices)) {
		// A Node without conditions: no agent has written its status yet.
		if before[handle] || a.node == nil || len(a.node.Status.Conditions) == 0 ||
			slices.Contains(a.node.Status.VolumesInUse, uniqueName(handle)) {
			continue
		}
		delete(x.devices, handle)
		a.sim.judge.storageDetached(handle)
	}
	a.showAttached()
}

// showAttached has the status of the Node say what is attached.
func (a *apiServer) showAttached() {
	if a.node == nil {
		return
	}
	var all []corev1.AttachedVolume
	for _, handle := range slices.Sorted(maps.Keys(a.attacher.devices)) {
		all = append(all, corev1.AttachedVolume{Name: uniqueName(handle), DevicePath: "/dev/" + handle})
	}
	if slices.Equal(all, a.node.Status.VolumesAttached) {
		return
	}
	n := a.node.DeepCopy()
	n.Status.VolumesAttached = all
	a.putNode(n)
}

// volumeObjects reads the objects of volumes from the API server. It implements persistentvolume.Objects.
type volumeObjects struct{ run *run }

var _ persistentvolume.Objects = volumeObjects{}

func noSuch(resource, name string) error {
	return apierrors.NewNotFound(schema.GroupResource{Group: "storage.k8s.io", Resource: resource}, name)
}

// Claim reads a claim, which is bound.
func (o volumeObjects) Claim(_ context.Context, namespace, name string) (out *corev1.PersistentVolumeClaim, err error) {
	return out, o.run.cluster.request("get", func(*apiServer) error {
		if claimsOfPlan[name] == "" {
			return noSuch("persistentvolumeclaims", name)
		}
		out = &corev1.PersistentVolumeClaim{}
		out.Namespace, out.Name, out.UID = namespace, name, types.UID("uid-of-"+name)
		out.Spec.VolumeName, out.Status.Phase = "pv-"+name, corev1.ClaimBound
		return nil
	})
}

// Volume reads a PersistentVolume.
func (o volumeObjects) Volume(_ context.Context, name string) (out *corev1.PersistentVolume, err error) {
	return out, o.run.cluster.request("get", func(*apiServer) error {
		claim := name[len("pv-"):]
		out = &corev1.PersistentVolume{}
		out.Name = name
		out.Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
		out.Spec.ClaimRef = &corev1.ObjectReference{Name: claim, UID: types.UID("uid-of-" + claim)}
		out.Spec.CSI = &corev1.CSIPersistentVolumeSource{Driver: claimsOfPlan[claim], VolumeHandle: handleOf(claim)}
		return nil
	})
}

// Driver reads a CSIDriver.
func (o volumeObjects) Driver(_ context.Context, name string) (out *storagev1.CSIDriver, err error) {
	return out, o.run.cluster.request("get", func(*apiServer) error {
		files := name == filesDriver
		attached, seconds := !files, int64(tokenLasts.Seconds())
		out = &storagev1.CSIDriver{Spec: storagev1.CSIDriverSpec{AttachRequired: &attached, RequiresRepublish: &files,
			VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{
				storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral,
			}}}
		if out.Name = name; files {
			out.Spec.TokenRequests = []storagev1.TokenRequest{{Audience: tokenAudience, ExpirationSeconds: &seconds}}
		}
		return nil
	})
}

// Attachment reads a VolumeAttachment.
func (o volumeObjects) Attachment(_ context.Context, name string) (out *storagev1.VolumeAttachment, err error) {
	return out, o.run.cluster.request("get", func(a *apiServer) error {
		for handle := range a.attacher.devices {
			if fmt.Sprintf("csi-%x", sha256.Sum256([]byte(handle+blockDriver+nodeName))) == name {
				out = &storagev1.VolumeAttachment{Status: storagev1.VolumeAttachmentStatus{Attached: true}}
				return nil
			}
		}
		return noSuch("volumeattachments", name)
	})
}

// Secret finds none: no volume of a plan needs one.
func (o volumeObjects) Secret(_ context.Context, _, name string) (*corev1.Secret, error) {
	return nil, noSuch("secrets", name)
}

// PatchClaim patches nothing: no volume of a plan grows.
func (o volumeObjects) PatchClaim(_ context.Context, _, name string, _ []byte) (*corev1.PersistentVolumeClaim, error) {
	return nil, noSuch("persistentvolumeclaims", name)
}

// tokenLasts is how long a token of a pod is valid.
const tokenLasts = 10 * time.Minute

// podToken is a token of a pod's service account.
type podToken struct {
	uid      string
	issuedAt time.Duration // in uptime
}

// Token issues a token that is bound to a pod.
func (o volumeObjects) Token(_ context.Context, p *corev1.Pod, r storagev1.TokenRequest,
) (out authenticationv1.TokenRequestStatus, err error) {
	return out, o.run.cluster.request("create", func(a *apiServer) error {
		if a.byUID(string(p.UID)) == nil {
			return apierrors.NewNotFound(podsResource, p.Name)
		}
		out.Token = fmt.Sprintf("%s-token-%d", secret, len(a.attacher.tokens))
		out.ExpirationTimestamp = metav1.NewTime(a.now().Add(time.Duration(*r.ExpirationSeconds) * time.Second))
		a.attacher.tokens[out.Token] = podToken{string(p.UID), a.sim.clock.uptime}
		return nil
	})
}
