package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestPodIsTimedFromItsFirstSuccessToItsReport(t *testing.T) {
	f := newFlips([]string{"a"})
	begin := time.Date(2026, 1, 1, 10, 0, 0, 0, time.UTC)
	at := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
	probe := func(pod string, ms, want int) {
		t.Helper()
		if got := f.status(pod, at(ms)); got != want {
			t.Errorf("at %d ms the status of %s is %d, want %d", ms, pod, got, want)
		}
	}
	probe("a", 0, http.StatusOK) // until it is known to be ready
	f.see("a", false, at(10))
	probe("a", 20, http.StatusOK)
	f.see("a", true, at(30))
	f.see("a", false, at(31)) // an old state: no probe has failed yet
	probe("a", 100, http.StatusServiceUnavailable)
	probe("other", 110, http.StatusOK)
	probe("a", 1100, http.StatusServiceUnavailable) // the failure is not reported yet
	f.see("a", false, at(1150))
	f.see("a", true, at(1160)) // no probe has succeeded yet
	probe("a", 2100, http.StatusOK)
	probe("a", 3100, http.StatusOK)
	if f.see("a", false, at(3110)); len(f.times()) != 0 {
		t.Errorf("timed before the report: %v", f.times())
	}
	f.see("a", true, at(3130))
	f.see("a", true, at(3200))
	if got := fmt.Sprint(f.times()); got != "[1.03]" {
		t.Errorf("took %s s, want 1.03 from the first success", got)
	}
	select {
	case <-f.done:
	default:
		t.Error("all have passed, but done is open")
	}
}

func TestReadyIsReadFromEventsAndFromTheKubeletsPods(t *testing.T) {
	var got []string
	saw := func(uid string, ready bool) { got = append(got, fmt.Sprint(uid, " ", ready)) }
	var events strings.Builder
	for _, data := range []string{
		`{"conditions":[{"type":"Initialized","status":true},{"type":"Ready","reason":"ContainersNotReady"}]}`,
		`{"phase":"POD_PHASE_RUNNING","waiting":{"main":{}}}`,
		`{"conditions":[{"type":"Ready","status":true},{"type":"ContainersReady","status":true}],"ready":1}`,
	} {
		fmt.Fprintf(&events, `{"author":"pod/u1","event":"pod_status_changed","data":%s}`+"\n", data)
	}
	err := readEvents(strings.NewReader(events.String()), saw)
	if err != nil || strings.Join(got, ", ") != "u1 false, u1 true" {
		t.Errorf("events report %q, %v", got, err)
	}
	if err := readEvents(strings.NewReader("no agent can be reached\n"), saw); err == nil {
		t.Error("a line that is not an event passes")
	}

	got = nil
	for _, status := range []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse} {
		p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u2"}, Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: status}, {Type: corev1.ContainersReady, Status: corev1.ConditionTrue},
		}}}
		b, err := p.Marshal()
		if err == nil {
			err = readPod(b, saw)
		}
		if err != nil {
			t.Fatal(err)
		}
		if readPod(b[:9], saw) == nil {
			t.Error("half a pod can be read")
		}
	}
	if strings.Join(got, ", ") != "u2 true, u2 false" {
		t.Errorf("pods report %q", got)
	}
}
