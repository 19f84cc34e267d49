package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/plain"
	"github.com/journalet/journalet/runtime/api/query"
	"github.com/journalet/journalet/runtime/history/describe"
	"github.com/journalet/journalet/test/must"
)

// hostile clears the screen, sets the title, moves to the line's begin, turns text around and begins a line of its own;
// with C0, C1, a raw byte of C1 and a direction mark.
const hostile = "\x1b[2J\x1b]0;owned\x07\rok\x7f\u009b31m\x9b1m\u202egnp.exe\nERROR: reinstall\n"

// wantPlain fails if text contains a character that a terminal acts on, or a line that hostile begins.
func wantPlain(t *testing.T, what, text string) {
	t.Helper()
	if i := strings.IndexFunc(text, func(r rune) bool { return r != '\n' && plain.Acts(r) }); i >= 0 {
		t.Errorf("%s: a control character at byte %d of\n%q", what, i, text)
	}
	if strings.Contains(text, "\x9b") {
		t.Errorf("%s: a raw byte of C1 in\n%q", what, text)
	}
	if strings.Contains(text, "\nERROR: reinstall") {
		t.Errorf("%s: a value begins a line:\n%s", what, text)
	}
	if !strings.Contains(text, `\u001b[2J`) {
		t.Errorf("%s: the value is missing:\n%s", what, text)
	}
}

func TestTextOfOthersDoesNotReachTheTerminalRaw(t *testing.T) {
	pods := somePods()
	p := &pods.Items[1]
	state := &p.Status.ContainerStatuses[0]
	state.LastTerminationState.Terminated.Message = hostile
	state.State.Waiting.Message = hostile
	p.Status.Message, p.Status.Reason = hostile, hostile
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Reason: hostile, Message: hostile}}
	event := messages.Flat{
		Seq: 7, Time: "2026-03-01T11:59:55Z", Event: "pod_observed", Author: hostile, Data: []byte("{}"),
	}
	report := &query.PodReport{
		Pod: p, Source: hostile, Quarantine: &query.Quarantine{Cause: 1, Code: hostile, Message: hostile},
		Waits:     []query.PodWait{{What: hostile}},
		Decisions: []describe.Line{{Flat: event, Text: hostile}},
		Events:    []describe.PodEvent{{Reason: hostile, Message: hostile}},
	}
	for what, print := range map[string]func(*app){
		"pod":    func(a *app) { (&description{w: a.out, now: now, node: hostile}).pod(report) },
		"pods":   func(a *app) { (&podTable{table: table{w: a.out}, wide: true, node: hostile}).show(now, pods, true) },
		"notice": func(a *app) { a.notice(strings.TrimSpace(strings.ReplaceAll(hostile, "\n", " "))) },
		"observe": func(a *app) {
			d := describe.New()
			v := &eventView{a: a, ctx: context.Background(), d: d, renderer: describe.NewRenderer(d, nil)}
			must.OK(t, v.print(event))
		},
	} {
		a, out := testApp()
		print(a)
		wantPlain(t, what, out.String())
	}
}

func TestJSONKeepsItsValueOnTheScreen(t *testing.T) {
	a, out := testApp()
	value := strings.ToValidUTF8(hostile, "")
	must.OK(t, printValue(a.out, formatJSON, map[string]string{"message": value}))
	wantPlain(t, "json", out.String())
	var got map[string]string
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || got["message"] != value {
		t.Fatalf("%q, %v", got, err)
	}
}

func TestColoursSurroundQuotedText(t *testing.T) {
	var out bytes.Buffer
	must.OK(t, (&screen{&out}).paint(true, painted{red, "a\x1b[0mb"}, painted{"", "c"}, painted{dim, ""}))
	if got, want := out.String(), red+`a\u001b[0mb`+normal+"c\n"; got != want {
		t.Fatalf("%q, want %q", got, want)
	}
}
