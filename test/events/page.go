package events

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/messages/kind"
)

// facts are the actors that facts are about, and who records them. An event that is not here is a decision.
var facts = map[string]struct{ about, recorder string }{
	"agent_started":          {"agent", "the agent, when it starts"},
	"agent_stopped":          {"agent", "the agent, when it stops"},
	"journal_damaged":        {"agent", "the agent, when it starts"},
	"quarantined":            {"agent", "the host of the actors"},
	"quarantine_lifted":      {"agent", "the host of the actors, on request"},
	"timer_fired":            {"any", "the timers"},
	"manifests_read":         {"source", "the driver of the source"},
	"pod_observed":           {"pod", "PLEG, after an inspection"},
	"call_finished":          {"any", "what performs the calls"},
	"runtime_health_changed": {"runtime", "the check of the runtime's health"},
	"pull_progressed":        {"image", "the driver of images"},
	"probe_result":           {"pod", "the prober"},
	"readiness_gates_read":   {"pod", "the driver of readiness gates"},
	"objects_read":           {"pod", "the objects store"},
	"volumes_lost":           {"pod", "the volume driver"},
	"pod_directory_found":    {"pod", "the volume driver"},
	"pod_cgroup_lost":        {"pod", "the driver of cgroups"},
	"storage_exceeded":       {"pod", "the driver that measures ephemeral storage"},

	"session_started":         {"pod", "the handlers of exec, attach, port-forward and logs"},
	"session_ended":           {"pod", "the handlers of exec, attach, port-forward and logs"},
	"images_observed":         {"image", "the driver of images"},
	"image_filesystem_full":   {"image", "the driver of images"},
	"log_rotated":             {"pod", "the driver of log rotation"},
	"restart_requested":       {"pod", "the control service, on request"},
	"drain_requested":         {"node", "the control service, on request"},
	"uncordon_requested":      {"node", "the control service, on request"},
	"shutdown_signaled":       {"node", "the driver of shutdowns"},
	"operator_pull_requested": {"image", "the control service, on request"},
	"image_removal_requested": {"image", "the control service, on request"},

	"pressure_observed":      {"node", "the driver of pressure"},
	"oom_kill_observed":      {"pod", "the driver that reads the kernel's log"},
	"node_observed":          {"node", "the driver of the Node"},
	"node_registered":        {"node", "the driver of the Node"},
	"api_server_contact":     {"agent", "the client of the API server"},
	"certificate_changed":    {"agent", "the driver of certificates"},
	"api_delete_finished":    {"pod", "the driver of pod statuses"},
	"devices_observed":       {"node", "the driver of device plugins"},
	"claim_health_observed":  {"pod", "the driver of claims"},
	"preferred_devices_read": {"node", "the driver of device plugins"},
}

// ids are how a subject names the actors of a kind.
var ids = map[string]string{
	"agent": "0", "node": "0", "image": "0", "runtime": "0", "source": "<source>", "pod": "<uid>",
}

// page writes docs/EVENTS.md.
type page struct {
	bytes.Buffer
	comments comments
	examples map[string]messages.Flat
	authors  map[string]map[string]bool // the kinds of actors that recorded events are of
	types    []protoreflect.MessageDescriptor
	enums    []protoreflect.EnumDescriptor
	// unexplained are the fields without a meaning.
	unexplained []string
}

// render returns the page.
func render(c comments, examples map[string]messages.Flat, authors map[string]map[string]bool) *page {
	p := &page{comments: c, examples: examples, authors: authors}
	p.WriteString(header)
	all := (&journaletv1.Event{}).ProtoReflect().Descriptor().Fields()
	p.severities()
	p.WriteString("\n| event | category | severity | recorded by | received by |\n|---|---|---|---|---|\n")
	for i := range all.Len() {
		name := string(all.Get(i).Name())
		fmt.Fprintf(p, "| [%s](#%s) | %s | %s | %s | %s |\n", name, name, kind.Named(name).Category, severity(name),
			p.recorder(name), receivers(all.Get(i)))
	}
	for i := range all.Len() {
		p.event(all.Get(i))
	}
	p.WriteString("\n## Types\n")
	for i := 0; i < len(p.types); i++ { // grows meanwhile
		d := p.types[i]
		fmt.Fprintf(p, "\n### %s\n\n%s", d.Name(), paragraph(p.comments[string(d.Name())]))
		p.fields(d)
	}
	p.WriteString("\n## Enums\n")
	for _, d := range p.enums {
		p.enum(d)
	}
	return p
}

// severities writes what each severity means.
func (p *page) severities() {
	p.WriteString("| severity | |\n|---|---|\n")
	for v := kind.Trace; kind.Word(v) != ""; v++ {
		fmt.Fprintf(p, "| %s | %s |\n", kind.Word(v), cell(p.comments[v.String()]))
	}
}

// severity returns how much an event of this name matters, in words.
func severity(name string) string {
	k := kind.Named(name)
	if k.UpTo == kind.Unknown {
		return kind.Word(k.Severity)
	}
	return kind.Word(k.Severity) + " to " + kind.Word(k.UpTo)
}

// recorder returns who records an event: the actor that decides it, or of a fact the part of the agent.
func (p *page) recorder(name string) string {
	if f, ok := facts[name]; ok {
		return "fact: " + f.recorder
	}
	if deciders := p.deciders(name); len(deciders) > 0 {
		return "decision: " + strings.Join(deciders, ", ")
	}
	return "decision: any actor"
}

// kinds are the kinds of actors that decide, as the groups of the contract name them.
var kinds = []struct{ kind, name string }{
	{"source", "a source"}, {"pod", "a pod"}, {"node", "the node"}, {"image", "the image actor"},
	{"runtime", "the runtime actor"},
}

// deciders returns the actors that decide an event: the actors of its group in the contract, and the actors that were
// recorded; none if any actor does.
func (p *page) deciders(name string) (out []string) {
	group := p.comments["group Event."+name]
	for _, k := range kinds {
		if group == "Decisions of any actor." {
			return nil
		}
		if group == "Decisions of "+k.name+"." || p.authors[name][k.kind] {
			out = append(out, k.name)
		}
	}
	return out
}

// author returns the kind of actor in the event's subject, "any" for several.
func (p *page) author(name string) string {
	if f, ok := facts[name]; ok {
		return f.about
	}
	if deciders := p.deciders(name); len(deciders) == 1 {
		for _, k := range kinds {
			if deciders[0] == k.name {
				return k.kind
			}
		}
	}
	return "any"
}

// event writes the section of one event.
func (p *page) event(descriptor protoreflect.FieldDescriptor) {
	name := string(descriptor.Name())
	fmt.Fprintf(p, "\n## %s\n\n%s\n", name, paragraph(p.comments[string(descriptor.Message().Name())]))
	author := p.author(name)
	actor := author + "." + ids[author]
	if author == "any" {
		actor = "<actor kind>.<actor id>"
	}
	fmt.Fprintf(p, "- Subject: `event.<node>.%s.%s`\n", actor, name)
	fmt.Fprintf(p, "- Recorded by: %s\n- Received by: %s\n", p.recorder(name), receivers(descriptor))
	p.fields(descriptor.Message())
	example, ok := p.examples[name]
	if !ok {
		p.WriteString("\nNone of the recorded histories holds one that fits this page.\n")
		return
	}
	fmt.Fprintf(p, "\n```json\n%s\n```\n", indented(example))
}

// fields writes a table of a message's fields, and notes their types.
func (p *page) fields(d protoreflect.MessageDescriptor) {
	if d.Fields().Len() == 0 {
		p.WriteString("\nIt has no fields.\n")
		return
	}
	p.WriteString("\n| field | type | |\n|---|---|---|\n")
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		about := p.meaningOf(f)
		if about == "" {
			p.unexplained = append(p.unexplained, string(d.Name())+"."+string(f.Name()))
		}
		if o := f.ContainingOneof(); o != nil && !o.IsSynthetic() {
			about = strings.TrimSpace("One of `" + string(o.Name()) + "`. " + about)
		}
		fmt.Fprintf(p, "| `%s` | %s | %s |\n", f.Name(), p.typeOf(f), cell(about))
	}
}

// typeOf returns a field's type in JSON.
func (p *page) typeOf(f protoreflect.FieldDescriptor) string {
	switch {
	case f.IsMap():
		return "object of " + p.single(f.MapValue()) + " by " + p.single(f.MapKey())
	case f.IsList():
		return "list of " + p.single(f)
	}
	return p.single(f)
}

func (p *page) single(f protoreflect.FieldDescriptor) string {
	switch f.Kind() {
	case protoreflect.MessageKind:
		return p.message(f.Message())
	case protoreflect.EnumKind:
		if !slices.Contains(p.enums, f.Enum()) {
			p.enums = append(p.enums, f.Enum())
		}
		return link(string(f.Enum().Name()))
	case protoreflect.BoolKind, protoreflect.StringKind:
		return f.Kind().String()
	case protoreflect.BytesKind:
		return "string (base64)"
	case protoreflect.Int64Kind, protoreflect.Uint64Kind:
		return "string (" + f.Kind().String() + ")"
	}
	return "number (" + f.Kind().String() + ")"
}

func (p *page) message(d protoreflect.MessageDescriptor) string {
	switch d.FullName() {
	case "google.protobuf.Timestamp":
		return "string (RFC 3339)"
	case "google.protobuf.Duration":
		return "string (seconds, as 1.5s)"
	}
	if !slices.Contains(p.types, d) {
		p.types = append(p.types, d)
	}
	return link(string(d.Name()))
}

func (p *page) enum(d protoreflect.EnumDescriptor) {
	fmt.Fprintf(p, "\n### %s\n\n%s\n| value | |\n|---|---|\n", d.Name(), paragraph(p.comments[string(d.Name())]))
	for i := range d.Values().Len() {
		v := d.Values().Get(i)
		about := p.comments[string(v.Name())]
		if v.Number() == 0 {
			about = strings.TrimSpace("Left out in JSON. " + about)
		}
		fmt.Fprintf(p, "| `%s` | %s |\n", v.Name(), cell(about))
	}
}

func link(name string) string { return "[" + name + "](#" + strings.ToLower(name) + ")" }

func cell(s string) string { return strings.ReplaceAll(escape(s), "|", `\|`) }

// escape keeps <x> from being taken for HTML.
func escape(s string) string { return strings.ReplaceAll(s, "<", "&lt;") }

// width is the longest line of a document.
const width = 120

// paragraph wraps a comment, and ends it with a newline.
func paragraph(s string) string {
	var b strings.Builder
	n := 0
	for _, word := range strings.Fields(escape(s)) {
		switch {
		case n > 0 && n+1+len(word) > width:
			b.WriteByte('\n')
			n = 0
		case n > 0:
			b.WriteByte(' ')
			n++
		}
		b.WriteString(word)
		n += len(word)
	}
	if n == 0 {
		return ""
	}
	return b.String() + "\n"
}

// indented returns an event as JSON on many lines.
func indented(f messages.Flat) string {
	var b bytes.Buffer
	line, err := json.Marshal(&f)
	if err == nil {
		err = json.Indent(&b, line, "", "  ")
	}
	if err != nil {
		return err.Error() // the page's test shows it
	}
	return b.String()
}
