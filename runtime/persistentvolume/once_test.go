package persistentvolume

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/test/fakecsi"
	"github.com/journalet/journalet/test/must"
)

// once has a claim with ReadWriteOncePod, and two pods that name it.
func once(t *testing.T, modes ...corev1.PersistentVolumeAccessMode) (r *rig, first, second *corev1.Pod) {
	t.Helper()
	r = newRig(t, fakecsi.Stage)
	v := r.claimed("data")
	r.volumes["pv-data"].Spec.AccessModes = append(modes, corev1.ReadWriteOncePod)
	return r, r.pod("p1", v), r.pod("p2", v)
}

// blocked fails unless the set-up for a pod is refused, and leaves no trace.
func (r *rig) blocked(p *corev1.Pod) {
	r.t.Helper()
	r.fake.Calls()
	if err := r.setUp(p); !errors.Is(err, errInUse) {
		r.t.Errorf("got %v, want %v", err, errInUse)
	}
	r.expect()
	if _, err := r.Path(string(p.UID), p.Spec.Volumes[0].Name); err == nil {
		r.t.Error("it has a claim")
	}
}

func TestAVolumeOfOnePodIsRefusedToAnotherUntilTheFirstIsGone(t *testing.T) {
	for name, local := range map[string]bool{"of a driver": false, "local": true} {
		t.Run(name, func(t *testing.T) {
			r, first, second := once(t)
			if local {
				r.local("data")
			}
			again := first.Spec.Volumes[0]
			again.Name = "again"
			first.Spec.Volumes = append(first.Spec.Volumes, again)
			must.OK(t, r.setUp(first)) // both of its volumes
			r.blocked(second)
			r.restart("boot-1")
			r.blocked(second)
			must.OK(t, r.setUp(first))
			r.reboot()
			r.blocked(second)
			must.OK(t, r.setUp(first))
			must.OK(t, r.tearDown("p1"))
			must.OK(t, r.setUp(second))
			r.blocked(first)
			must.OK(t, r.tearDown("p1"))
			must.OK(t, r.tearDown("p2"))
			r.nothingLeft()
		})
	}
}

func TestAVolumeWithFurtherAccessModesIsForSeveralPods(t *testing.T) {
	r, first, second := once(t, corev1.ReadWriteOnce)
	for _, p := range []*corev1.Pod{first, second} {
		must.OK(t, r.setUp(p))
	}
	for _, uid := range []string{"p1", "p2"} {
		must.OK(t, r.tearDown(uid))
	}
	r.nothingLeft()
}

// The outcome of the first pod's publication is not known, or its driver has refused it.
func TestAVolumeInDoubtIsInUseAndARefusedOneIsNot(t *testing.T) {
	for code, inUse := range map[codes.Code]bool{codes.Unavailable: true, codes.InvalidArgument: false} {
		r, first, second := once(t)
		r.fake.Before = func(_ context.Context, rpc string, _ any) error {
			if rpc == "NodePublishVolume" {
				return status.Error(code, "no")
			}
			return nil
		}
		if r.setUp(first) == nil {
			t.Fatal("it is set up")
		}
		r.fake.Before = nil
		r.restart("boot-1")
		if inUse {
			r.blocked(second)
			must.OK(t, r.setUp(first))
		} else {
			must.OK(t, r.setUp(second))
			r.fake.Calls()
			if err := r.setUp(first); !errors.Is(err, errInUse) {
				t.Errorf("got %v, want %v", err, errInUse)
			}
			r.expect()
		}
		for _, uid := range []string{"p1", "p2"} {
			must.OK(t, r.tearDown(uid))
		}
		r.nothingLeft()
	}
}

// An agent that did not check has given it to both.
func TestAPodThatHasAVolumeOfOnePodKeepsItAfterAReboot(t *testing.T) {
	r, first, second := once(t, corev1.ReadWriteOnce)
	for _, p := range []*corev1.Pod{first, second} {
		must.OK(t, r.setUp(p))
	}
	r.volumes["pv-data"].Spec.AccessModes = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}
	r.reboot()
	for _, p := range []*corev1.Pod{first, second} {
		must.OK(t, r.setUp(p))
	}
	r.blocked(r.pod("p3", first.Spec.Volumes[0]))
	for _, uid := range []string{"p1", "p2"} {
		must.OK(t, r.tearDown(uid))
	}
	r.nothingLeft()
}

func TestALocalVolumeIsInUseAfterACrashBeforeItsMountIsRecorded(t *testing.T) {
	r, first, second := once(t)
	r.local("data")
	must.OK(t, r.setUp(first))
	c := r.claimOf("p1", "pv-data")
	c.Stage = claimed
	must.OK(t, r.writeRecord(r.claimDir("p1", "pv-data"), c))
	r.restart("boot-1")
	r.blocked(second)
	must.OK(t, r.setUp(first))
	must.OK(t, r.tearDown("p1"))
	r.nothingLeft()
}
