package main

import (
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/plain"
)

const reverse = "\x1b[7m"

const stepHelp = `
  ← → ↑ ↓       the record before, the next one     PgUp PgDn   a page of records
  Home End      the first record, the last one      g           go to a number, a time, or 10m before the end
  n p           the next record that concerns the actor shown, the one before
  /             search for a text, in its case      ]  [         the next match, the one before
  c             the record that led to this one
  a             another actor of this record
  Tab           changes, state, causes, record      J K         scroll
  q             quit

  Any key closes this help.`

// View draws the screen: records above, a panel below.
func (m *stepModel) View() tea.View {
	v := tea.NewView(m.draw())
	v.AltScreen = true
	return v
}

func (m *stepModel) draw() string {
	rows := make([]string, 0, m.height)
	rows = append(rows, m.paint(bold, m.head()))
	if m.help {
		for _, l := range lines(stepHelp) {
			rows = append(rows, m.fit(l))
		}
		return strings.Join(m.pad(rows, m.height), "\n")
	}
	for i, x := range m.window {
		code, mark := "", "  "
		switch {
		case i == m.at:
			code, mark = reverse, "> "
		case failed(x):
			code = red
		}
		rows = append(rows, m.paint(code, mark+recordLine(x)))
	}
	rows = m.pad(rows, 1+m.listHeight())
	rows = append(rows, m.paint(dim, m.tabs()))
	for i := m.scroll; i < len(m.body) && i-m.scroll < m.panelHeight(); i++ {
		rows = append(rows, m.fit("  "+m.body[i]))
	}
	return strings.Join(append(m.pad(rows, m.height-1), m.paint(dim, m.foot())), "\n")
}

// failed reports whether a record has an event that needs attention.
func failed(x *stepRecord) bool {
	for _, e := range x.events {
		if e.name == "quarantined" || e.name == "journal_damaged" || strings.HasPrefix(e.text, "failed") ||
			strings.HasPrefix(e.text, "rejected") {
			return true
		}
	}
	return false
}

func (m *stepModel) head() string {
	x := m.now()
	_, last := m.s.Bounds()
	return fmt.Sprintf("%s  record %d of %d  %s  run %d", m.s.Node(), x.seq(), last,
		x.rec.GetTime().AsTime().Format(time.RFC3339Nano), x.rec.GetEpoch())
}

func (m *stepModel) tabs() string {
	var names []string
	for p := range panels {
		name := p.String()
		if p == m.panel {
			name = "[" + name + "]"
		}
		names = append(names, name)
	}
	text := "── " + strings.Join(names, " ")
	if m.actor != (messages.Ref{}) && (m.panel == panelChanges || m.panel == panelState) {
		text += " of " + m.s.words.Actor(m.actor)
	}
	if more := len(m.body) - m.scroll - m.panelHeight(); more > 0 {
		text += fmt.Sprintf(" (%d more lines: J)", more)
	}
	return text + " " + strings.Repeat("─", max(m.width-len(text)-1, 0))
}

func (m *stepModel) foot() string {
	switch {
	case m.prompt == promptSearch:
		return "search: " + m.typed + "_"
	case m.prompt == promptGoTo:
		return "go to: " + m.typed + "_"
	case m.notice != "":
		return m.notice
	}
	return "← → step   n p this actor's   / search   g go to   c cause   a actor   Tab panel   ? help   q quit"
}

// fit quotes a text and cuts it to the width.
func (m *stepModel) fit(s string) string { return ansi.Truncate(plain.Quote(s, false), m.width, "…") }

func (m *stepModel) paint(code, s string) string {
	s = m.fit(s)
	if !m.colour || code == "" {
		return s
	}
	return code + s + normal
}

func (m *stepModel) pad(rows []string, to int) []string {
	for len(rows) < to {
		rows = append(rows, "")
	}
	return rows[:to]
}
