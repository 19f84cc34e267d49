package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
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

	field := func(n protowire.Number, v ...[]byte) (b []byte) {
		b = protowire.AppendTag(nil, n, protowire.BytesType)
		return protowire.AppendBytes(b, []byte(strings.Join(texts(v), "")))
	}
	condition := func(of, is string) []byte { return field(2, field(1, []byte(of)), field(2, []byte(is))) }
	pod := func(ready string) []byte {
		number := protowire.AppendVarint(protowire.AppendTag(nil, 7, protowire.VarintType), 3)
		b := append(field(1, field(1, []byte("web")), field(5, []byte("u2")), number), field(2, []byte("spec"))...)
		return append(b, field(3, field(1, []byte("Running")), condition("Ready", ready), condition("ContainersReady", "True"))...)
	}
	for _, ready := range []string{"True", "False"} {
		if uid, is, ok := readyOf(pod(ready)); uid != "u2" || is != (ready == "True") || !ok {
			t.Errorf("a pod whose Ready is %s reads as %q, %v, %v", ready, uid, is, ok)
		}
	}
	if _, _, ok := readyOf(pod("True")[:9]); ok {
		t.Error("half a pod has a readiness")
	}
}

func texts(parts [][]byte) (out []string) {
	for _, p := range parts {
		out = append(out, string(p))
	}
	return out
}
