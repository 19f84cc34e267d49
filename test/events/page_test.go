package events

import (
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

var update = flag.Bool("events.update", false, "write docs/EVENTS.md")

const (
	document  = "../../docs/EVENTS.md"
	contract  = "../../proto/journalet/v1"
	histories = "../simulation/testdata/histories"
)

func TestPageShowsTheContractAndRecordedEvents(t *testing.T) {
	c, err := readComments(contract)
	must.OK(t, err)
	examples, authors := readExamples(t, histories, "node-1")
	p := render(c, examples, authors)
	want := p.Bytes()
	if *update {
		must.OK(t, os.WriteFile(document, want, 0o600))
	}
	got, err := os.ReadFile(document)
	must.OK(t, err)
	if string(got) != string(want) {
		t.Errorf("%s is out of date: `make docs` writes it", document)
	}
	if len(p.unexplained) > 0 {
		t.Errorf("fields without a meaning, in the contract or in fields.go: %q", p.unexplained)
	}
	for event, kinds := range authors {
		if author := p.author(event); author != "any" && (len(kinds) > 1 || !kinds[author]) {
			t.Errorf("the page has %s as an event of %s, recorded were %v", event, author, kinds)
		}
	}
}

func TestEveryEventIsExplained(t *testing.T) {
	c, err := readComments(contract)
	must.OK(t, err)
	kinds := (&journaletv1.Event{}).ProtoReflect().Descriptor().Fields()
	for i := range kinds.Len() {
		kind := kinds.Get(i)
		if c[string(kind.Message().Name())] == "" {
			t.Errorf("the message %s has no comment", kind.Message().Name())
		}
		group := c["group Event."+string(kind.Name())]
		if _, fact := facts[string(kind.Name())]; fact != (group == "Facts.") ||
			!fact && !strings.HasPrefix(group, "Decisions of ") {
			t.Errorf("the event %s is in the group %q", kind.Name(), group)
		}
		if receivers(kind) == "" {
			t.Errorf("nobody is named who receives %s", kind.Name())
		}
	}
}

// TestEnvelopeIsShownWhole compares the page's table with what is encoded.
func TestEnvelopeIsShownWhole(t *testing.T) {
	b, err := json.Marshal(messages.Flat{ID: "x", Cause: 1, Data: []byte("{}")})
	must.OK(t, err)
	var encoded map[string]json.RawMessage
	must.OK(t, json.Unmarshal(b, &encoded))
	_, table, _ := strings.Cut(header, "## The envelope")
	table, _, _ = strings.Cut(table, "\n## ")
	for name := range encoded {
		if !strings.Contains(table, "| `"+name+"` |") {
			t.Errorf("the envelope's field %s is not on the page", name)
		}
	}
	if n := strings.Count(table, "\n| `"); n != len(encoded) {
		t.Errorf("the page shows %d fields of the envelope, it has %d", n, len(encoded))
	}
}

func TestTypesAreNamedByTheirJSON(t *testing.T) {
	p := &page{}
	var seen []string
	fields := (&journaletv1.CallFinished{}).ProtoReflect().Descriptor().Fields()
	for _, name := range []protoreflect.Name{"error", "retryable", "image_bytes", "reported", "ended_at"} {
		seen = append(seen, p.typeOf(fields.ByName(name)))
	}
	want := []string{"[CallError](#callerror)", "bool", "string (int64)", "[Resources](#resources)", "string (RFC 3339)"}
	if !slices.Equal(seen, want) {
		t.Errorf("the types are %q, want %q", seen, want)
	}
}
