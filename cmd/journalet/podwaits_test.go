package main

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/runtime/api/query"
)

func TestTerminatingPodShowsItsWaitsWithTheirAge(t *testing.T) {
	a, out := testApp()
	(&description{w: a.out, now: now, node: "node-1"}).pod(&query.PodReport{
		Pod: &somePods().Items[1],
		Waits: []query.PodWait{
			{What: "stop container main, grace period 30s (pod removed)", Since: now.Add(-time.Hour), Cause: 1042},
			{What: "sidecar proxy, which stops last", Since: now.Add(-2 * time.Hour)},
		},
	})
	for _, want := range []string{
		"Termination waits for:", "60m    #1042   stop container main, grace period 30s (pod removed)", "sidecar proxy",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func TestPodPendingAdmissionShowsItsWaits(t *testing.T) {
	a, out := testApp()
	(&description{w: a.out, now: now, node: "node-1"}).pod(&query.PodReport{
		Pod: &somePods().Items[1], Stage: "Admitting",
		Waits: []query.PodWait{{What: "termination of pod 1234, which has its name", Since: now.Add(-time.Minute)}},
	})
	if got := out.String(); strings.Contains(got, "Termination waits") || !strings.Contains(got, "\nWaits for:") ||
		!strings.Contains(got, "which has its name") {
		t.Errorf("printed\n%s", got)
	}
}

func TestLimitThatNothingEnforcesIsShown(t *testing.T) {
	a, out := testApp()
	p := somePods().Items[1].DeepCopy()
	critical := int32(2_000_000_000)
	p.Spec.Priority = &critical
	size := resource.MustParse("1Mi")
	p.Spec.Volumes = []corev1.Volume{{Name: "v",
		VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: &size}}}}
	(&description{w: a.out, now: now, node: "node-1"}).pod(&query.PodReport{Pod: p})
	want := "\nNot enforced:\n  spec.volumes[0].emptyDir.sizeLimit is not enforced"
	if got := out.String(); !strings.Contains(got, want) {
		t.Errorf("printed\n%s", got)
	}
}

func TestOrphanShowsItsDeletionAndItsDeadline(t *testing.T) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u"}}
	p.Status = corev1.PodStatus{Phase: corev1.PodUnknown, Reason: pod.ReasonOrphan}
	if s := summarize(p); s.status != "Orphan" {
		t.Errorf("its status is %q", s.status)
	}
	a, out := testApp()
	(&description{w: a.out, now: now, node: "node-1"}).pod(&query.PodReport{
		Pod: p, Stage: pod.ReasonOrphan, Waits: []query.PodWait{{What: "a source that has it", Since: now.Add(-time.Minute)}},
	})
	if got := out.String(); !strings.Contains(got, "\nWaits for:") || !strings.Contains(got, "adopts it as it is") ||
		!strings.Contains(got, "60s") {
		t.Errorf("printed\n%s", got)
	}
	at := metav1.NewTime(now)
	p.DeletionTimestamp = &at
	if s := summarize(p); s.status != "Terminating" {
		t.Errorf("while it is deleted its status is %q", s.status)
	}
}
