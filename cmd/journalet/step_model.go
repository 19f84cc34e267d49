package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

// panel is what the lower half of the screen shows.
type panel int

const (
	panelChanges panel = iota
	panelState
	panelCauses
	panelRecord
	panels
)

func (p panel) String() string {
	return [panels]string{"changes", "state", "causes", "record"}[p]
}

// prompting is what the user types at the bottom of the screen.
type prompting int

const (
	promptNone prompting = iota
	promptSearch
	promptGoTo
)

// maxPrompt bounds what is typed, in bytes.
const maxPrompt = 200

// stepModel is the state of the screen.
type stepModel struct {
	s      *stepper
	colour bool

	width, height int
	// window holds the records around the present one; at is that one's index.
	window []*stepRecord
	at     int
	// actor is the actor whose state is shown, one of the actors that the record concerns.
	actor  messages.Ref
	panel  panel
	body   []string // of the panel
	scroll int      // of the panel

	prompt prompting
	typed  string
	sought string
	notice string
	help   bool
	err    error
}

func newStepModel(s *stepper, colour bool) *stepModel {
	return &stepModel{s: s, colour: colour, width: 80, height: 24}
}

// Init does nothing: the first record is read before the program starts.
func (m *stepModel) Init() tea.Cmd { return nil }

// Update handles a key, a change of the terminal's size, and the end of a search.
func (m *stepModel) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = max(msg.Width, 20), max(msg.Height, 8)
		if len(m.window) > 0 {
			m.move(m.now().seq())
		}
	case tea.KeyPressMsg:
		return m, m.key(msg)
	}
	if m.err != nil {
		return m, tea.Quit
	}
	return m, nil
}

func (m *stepModel) now() *stepRecord { return m.window[m.at] }

// move shows the record seq, or the next record that exists.
func (m *stepModel) move(seq uint64) {
	first, last := m.s.Bounds()
	seq = min(max(seq, first), last)
	size := uint64(max(m.listHeight(), 1))
	from := max(first, seq-min(seq, size/2))
	to := min(last, from+size-1)
	from = max(first, to-min(to, size-1))
	window, err := m.s.window(from, to)
	if err != nil {
		m.err = err
		return
	}
	at := slices.IndexFunc(window, func(x *stepRecord) bool { return x.seq() >= seq })
	switch {
	case len(window) == 0:
		m.notice = fmt.Sprintf("record %d is not there", seq)
		return
	case at < 0:
		at = len(window) - 1
	}
	m.window, m.at, m.scroll = window, at, 0
	all, err := m.s.actors(m.now().rec)
	if m.err = err; len(all) > 0 && !slices.Contains(all, m.actor) {
		m.actor = all[0]
	}
	m.show()
}

// show fills the panel.
func (m *stepModel) show() {
	m.body = nil
	rec := m.now().rec
	var err error
	switch m.panel {
	case panelState:
		var text string
		if text, err = m.s.stateText(m.actor, rec.GetSeq()); text == "" {
			text = m.s.words.Actor(m.actor) + " does not exist at this record"
		}
		m.body = lines(text)
	case panelChanges:
		err = m.showChanges(rec)
	case panelCauses:
		var chain []*stepRecord
		chain, err = m.s.causes(rec)
		for _, x := range chain {
			m.body = append(m.body, recordLine(x))
		}
		if len(chain) == 0 {
			m.body = []string{"a fact: it comes from outside, and no record led to it"}
		}
	case panelRecord:
		var b []byte
		b, err = protojson.MarshalOptions{UseProtoNames: true, Multiline: true}.Marshal(rec)
		m.body = lines(string(b))
	}
	if err != nil {
		m.body = append(m.body, "cannot show it: "+err.Error())
	}
}

func (m *stepModel) showChanges(rec *journaletv1.Record) error {
	changed, err := m.s.changes(m.actor, rec.GetSeq())
	for _, f := range changed {
		m.body = append(m.body, fmt.Sprintf("%s: %s -> %s", f.Path, f.From, f.To))
	}
	if len(changed) > 0 || err != nil {
		return err
	}
	m.body = []string{"nothing changed in the state of " + m.s.words.Actor(m.actor)}
	if step := m.s.handledBy(m.actor, rec.GetSeq()); step > 0 {
		m.body[0] += fmt.Sprintf(" yet: it handles this record with its step #%d", step)
	}
	return nil
}

func lines(s string) []string { return strings.Split(strings.TrimRight(s, "\n"), "\n") }

// key handles a key.
func (m *stepModel) key(k tea.KeyPressMsg) tea.Cmd {
	m.notice = ""
	if m.prompt != promptNone {
		return m.typeKey(k)
	}
	if m.help {
		m.help = false
		return nil
	}
	if m.moveKey(k.String()) {
		return nil
	}
	switch k.String() {
	case "q", "ctrl+c", "esc":
		return tea.Quit
	case "tab":
		m.panel = (m.panel + 1) % panels
		m.scroll = 0
		m.show()
	case "a":
		m.nextActor()
	case "n":
		m.found(m.s.Next(m.actor, m.now().seq()))
	case "p":
		m.found(m.s.Previous(m.actor, m.now().seq()))
	case "/":
		m.prompt, m.typed = promptSearch, ""
	case "g", ":":
		m.prompt, m.typed = promptGoTo, ""
	case "]", "[":
		if m.sought == "" {
			m.notice = "nothing was searched for yet: press /"
			return nil
		}
		m.search(k.String() == "]")
	case "?", "h":
		m.help = true
	}
	return nil
}

// moveKey handles the keys that go to another record or scroll the panel.
func (m *stepModel) moveKey(key string) bool {
	seq, page := m.now().seq(), uint64(max(m.listHeight()-1, 1))
	first, last := m.s.Bounds()
	switch key {
	case "down", "j", "right", "l", "space":
		m.step(1)
	case "up", "k", "left":
		m.step(-1)
	case "pgdown":
		m.move(seq + page)
	case "pgup":
		m.move(seq - min(seq, page))
	case "home":
		m.move(first)
	case "end", "G":
		m.move(last)
	case "c":
		if cause := m.now().rec.GetStep().GetCause(); cause > 0 {
			m.move(cause)
		} else {
			m.notice = "a fact: no record led to it"
		}
	case "J", "ctrl+d":
		m.scroll = min(m.scroll+m.panelHeight()/2, max(len(m.body)-m.panelHeight(), 0))
	case "K", "ctrl+u":
		m.scroll = max(m.scroll-m.panelHeight()/2, 0)
	default:
		return false
	}
	return true
}

// step goes one record forward or back; records may be missing between.
func (m *stepModel) step(by int) {
	if to := m.at + by; to >= 0 && to < len(m.window) {
		m.move(m.window[to].seq())
	}
}

func (m *stepModel) nextActor() {
	all, err := m.s.actors(m.now().rec)
	if m.err = err; len(all) == 0 {
		m.notice = "this record concerns no actor of its own"
		return
	}
	m.actor = all[(slices.Index(all, m.actor)+1)%len(all)]
	m.scroll = 0
	m.show()
}

// search goes to the next record that holds the text searched for, or to the one before.
func (m *stepModel) search(forward bool) { m.found(m.s.Search(m.sought, m.now().seq(), forward)) }

// found goes to what was searched for.
func (m *stepModel) found(seq uint64) {
	if seq == 0 {
		m.notice = "no further record"
		return
	}
	m.move(seq)
}

// typeKey handles a key while something is typed.
func (m *stepModel) typeKey(k tea.KeyPressMsg) tea.Cmd {
	switch s := k.String(); {
	case s == "esc" || s == "ctrl+c":
		m.prompt = promptNone
	case s == "backspace":
		if r := []rune(m.typed); len(r) > 0 {
			m.typed = string(r[:len(r)-1])
		}
	case s == "enter":
		was := m.prompt
		m.prompt = promptNone
		if m.typed == "" {
			return nil
		}
		if was == promptSearch {
			m.sought = m.typed
			m.search(true)
			return nil
		}
		seq, err := m.s.moment(m.typed)
		if err != nil {
			m.notice = err.Error()
			return nil
		}
		m.move(seq)
	case k.Text != "" && len(m.typed)+len(k.Text) <= maxPrompt:
		m.typed += k.Text
	}
	return nil
}

// listHeight and panelHeight share the screen: a head, a line between, and a foot.
func (m *stepModel) listHeight() int  { return max((m.height-3)/2, 1) }
func (m *stepModel) panelHeight() int { return max(m.height-3-m.listHeight(), 1) }

// recordLine is a record on one line.
func recordLine(x *stepRecord) string {
	var texts []string
	for _, e := range x.events {
		texts = append(texts, e.text)
	}
	return fmt.Sprintf("#%-6d %s  %-16s %s", x.seq(), x.rec.GetTime().AsTime().Format(time.TimeOnly+".000"), x.who,
		strings.Join(texts, "; "))
}
