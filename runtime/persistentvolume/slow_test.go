package persistentvolume

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

func TestASlowChangeOfTheOwnerIsReportedUntilItIsOver(t *testing.T) {
	c := &cluster{clock: &stopwatch{now: time.Unix(1e9, 0), rings: map[int]func(){}}}
	p := &corev1.Pod{}
	p.Name, p.UID = "web", "uid-1"
	s := &setUp{Volumes: &Volumes{opts: Options{Event: c.Event, Clock: c.clock}}, pod: p}
	w := s.watchOwnership("/root/pods/uid-1/volumes/kubernetes.io~csi/pv/mount")
	expect := func(want ...string) {
		t.Helper()
		if got := c.emitted(); !slices.Equal(got, want) {
			t.Errorf("emitted %q, want %q", got, want)
		}
	}
	expect()
	const about, dir = "Pod web Warning VolumePermissionChangeInProgress ", "uid-1/volumes/kubernetes.io~csi/pv/mount"
	c.clock.ring()
	expect(about + "Setting volume ownership for " + dir + " is taking longer than expected, consider using " +
		"OnRootMismatch - https://kubernetes.io/docs/tasks/configure-pod-container/security-context/" +
		"#configure-volume-permission-and-ownership-change-policy-for-pods")
	for range 2 {
		w.files.Add(7)
	}
	c.clock.ring()
	expect(about + "Setting volume ownership for " + dir + ", processed 14 files.")
	w.stop()
	if n := c.clock.ring(); n != 0 {
		t.Errorf("%d timers are left", n)
	}
	expect()
}
