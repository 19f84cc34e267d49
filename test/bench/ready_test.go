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

func TestAPodIsTimedFromItsFirstGoodAnswerToWhereItShows(t *testing.T) {
	f := newFlips([]string{"a"})
	begin := time.Date(2026, 1, 1, 10, 0, 0, 0, time.UTC)
	at := func(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }
	answer := func(pod string, ms, want int) {
		t.Helper()
		if got := f.answer(pod, at(ms)); got != want {
			t.Errorf("at %d ms %s is answered %d, want %d", ms, pod, got, want)
		}
	}
	answer("a", 0, http.StatusOK) // until it is known to be ready
	f.see("a", false, at(10))
	answer("a", 20, http.StatusOK)
	f.see("a", true, at(30))
	f.see("a", false, at(31)) // an old state: no probe has failed yet
	answer("a", 100, http.StatusServiceUnavailable)
	answer("other", 110, http.StatusOK)
	answer("a", 1100, http.StatusServiceUnavailable) // the failure does not show yet
	f.see("a", false, at(1150))
	f.see("a", true, at(1160)) // no probe has succeeded yet
	answer("a", 2100, http.StatusOK)
	answer("a", 3100, http.StatusOK)
	if f.see("a", false, at(3110)); len(f.times()) != 0 {
		t.Errorf("timed before it shows: %v", f.times())
	}
	f.see("a", true, at(3130))
	f.see("a", true, at(3200))
	if got := fmt.Sprint(f.times()); got != "[1.03]" {
		t.Errorf("took %s s, want 1.03: from the first good answer", got)
	}
	select {
	case <-f.done:
	default:
		t.Error("all have passed, and it is not done")
	}
}

func TestReadyIsReadOffEventsAndOffTheKubeletsPods(t *testing.T) {
	var got []string
	saw := func(uid string, ready bool) { got = append(got, fmt.Sprint(uid, " ", ready)) }
	err := readEvents(strings.NewReader(`{"author":"pod/u1","event":"pod_status_changed","data":{"phase":"POD_PHASE_RUNNING","conditions":[{"type":"Initialized","status":true},{"type":"Ready","reason":"ContainersNotReady"}]}}
{"author":"pod/u1","event":"pod_status_changed","data":{"phase":"POD_PHASE_RUNNING","waiting":{"main":{}}}}
{"author":"pod/u1","event":"pod_status_changed","data":{"conditions":[{"type":"Ready","status":true},{"type":"ContainersReady","status":true}],"ready":1}}
`), saw)
	if err != nil || strings.Join(got, ", ") != "u1 false, u1 true" {
		t.Errorf("events tell %q, %v", got, err)
	}
	if err := readEvents(strings.NewReader("no agent can be reached\n"), saw); err == nil {
		t.Error("a line that is no event passes")
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
