package main

import (
	"path/filepath"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/cockroachdb/datadriven"

	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/history"
	"github.com/journalet/journalet/runtime/history/replay"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/scenario"
)

// incident plays an incident of test/incidents and returns its journal.
func incident(t *testing.T, name string) *history.Memory {
	t.Helper()
	s := scenario.New()
	path := filepath.Join("../../test/incidents/testdata", name+".txt")
	datadriven.RunTest(t, path, func(_ *testing.T, d *datadriven.TestData) string { return s.Run(d) })
	m, err := s.Journal()
	must.OK(t, err)
	return m
}

// steps returns the screen over a journal, at its first record.
func steps(t *testing.T, r history.Reader) *stepModel {
	t.Helper()
	session, err := replay.Open(t.Context(), r, replay.Options{})
	must.OK(t, err)
	m := newStepModel(newStepper(t.Context(), r, session), false)
	m.Update(tea.WindowSizeMsg{Width: 110, Height: 24})
	m.move(1)
	return m
}

// press types keys.
func press(t *testing.T, m *stepModel, keys ...string) {
	t.Helper()
	for _, key := range keys {
		k := tea.KeyPressMsg{Text: key, Code: []rune(key)[0]}
		if code, special := map[string]rune{"tab": tea.KeyTab, "end": tea.KeyEnd, "home": tea.KeyHome, "down": tea.KeyDown,
			"up": tea.KeyUp, "enter": tea.KeyEnter, "esc": tea.KeyEscape, "pgdown": tea.KeyPgDown}[key]; special {
			k = tea.KeyPressMsg{Code: code}
		}
		m.Update(k)
		must.OK(t, m.err)
	}
}

func TestScreenStepsThroughAJournal(t *testing.T) {
	m := steps(t, incident(t, "crash_loop"))
	press(t, m, "down", "down", "down")
	golden(t, "step-changes", m.draw()+"\n")
	press(t, m, "end", "tab")
	golden(t, "step-state", m.draw()+"\n")
	press(t, m, "tab")
	golden(t, "step-causes", m.draw()+"\n")
	press(t, m, "?")
	golden(t, "step-help", m.draw()+"\n")
}

func TestScreenFindsTextAndTheRecordsOfAnActor(t *testing.T) {
	r := incident(t, "crash_loop")
	m := steps(t, r)
	press(t, m, append(append([]string{"/"}, strings.Split("Error", "")...), "enter")...)
	exit := r.Records[m.now().seq()-1].GetFact().GetPodObserved()
	if exit == nil || !strings.Contains(m.draw(), "> #") {
		t.Fatalf("found record %d:\n%s", m.now().seq(), m.draw())
	}
	first := m.now().seq()
	if press(t, m, "]"); m.now().seq() <= first {
		t.Errorf("the next match after %d is %d", first, m.now().seq())
	}
	if press(t, m, "["); m.now().seq() != first {
		t.Errorf("back from there is %d, want %d", m.now().seq(), first)
	}
	pod := m.actor
	if pod.Kind != journaletv1.ActorKind_ACTOR_KIND_POD {
		t.Fatalf("the record concerns %s", pod)
	}
	for range 5 {
		before := m.now().seq()
		if press(t, m, "n"); m.now().seq() <= before || m.s.Previous(pod, m.now().seq()+1) != m.now().seq() {
			t.Fatalf("the next record of %s after %d is %d", pod, before, m.now().seq())
		}
	}
	press(t, m, "/", "n", "o", "p", "e", "x", "enter")
	if !strings.Contains(m.draw(), "no further record") {
		t.Errorf("nothing says that nothing was found:\n%s", m.draw())
	}
}

func TestScreenGoesToNumbersTimesAndCauses(t *testing.T) {
	r := incident(t, "crash_loop")
	m := steps(t, r)
	_, last := r.Bounds()
	press(t, m, "g", "1", "2", "enter")
	if m.now().seq() != 12 {
		t.Fatalf("at record %d", m.now().seq())
	}
	press(t, m, "g", "0", "s", "enter")
	if got := m.now().rec.GetTime().AsTime(); !got.Equal(r.Records[last-1].GetTime().AsTime()) {
		t.Errorf("at %s", got)
	}
	press(t, m, "end")
	for m.now().rec.GetStep() != nil {
		cause := m.now().rec.GetStep().GetCause()
		if press(t, m, "c"); m.now().seq() != cause {
			t.Fatalf("the cause %d leads to %d", cause, m.now().seq())
		}
	}
	press(t, m, "c", "home")
	press(t, m, "g", "x", "enter")
	if !strings.Contains(m.draw(), `"x" is neither`) || m.now().seq() != 1 {
		t.Errorf("what is no moment is not refused:\n%s", m.draw())
	}
}

func TestScreenFitsAnyTerminalAndQuotesWhatContainersWrite(t *testing.T) {
	r := incident(t, "quarantined")
	last := r.Records[len(r.Records)-1]
	last.GetFact().GetQuarantined().Message = "\x1b[2Jcleared\r\n\u202edeceived"
	m := steps(t, r)
	for _, size := range [][2]int{{110, 24}, {20, 8}, {1, 1}, {400, 100}} {
		m.Update(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		press(t, m, "end")
		for range panels {
			press(t, m, "tab")
			out := m.draw()
			if strings.ContainsAny(out, "\x1b\r\u202e") {
				t.Fatalf("it writes control characters: %q", out)
			}
			if rows := strings.Split(out, "\n"); len(rows) > max(size[1], 8) {
				t.Errorf("%d rows on %d", len(rows), size[1])
			}
		}
	}
}
