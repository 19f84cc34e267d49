package arch

import (
	"flag"
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
)

var updateActors = flag.Bool("arch.update", false, "write the tables of actors and drivers into docs/ARCHITECTURE.md")

// actorsDoc is where the tables are.
const actorsDoc = "docs/ARCHITECTURE.md"

// deciders are the actors in the order of the document: how it names them, their id on the bus, and their package.
var deciders = []struct {
	name, packageName string
	ref               messages.Ref
}{
	{"`source/<name>`", "source", messages.Source("s")},
	{"`pod/<uid>`", "pod", messages.Pod("u")},
	{"`node/0`", "node", messages.Node},
	{"`image/0`", "image", messages.Image},
	{"`runtime/0`", "dispatch", messages.Runtime},
}

// TestActorsTableFollowsTheCode: who receives what comes from messages.Audience, who decides what from the events that
// the packages of actors/ build.
func TestActorsTableFollowsTheCode(t *testing.T) {
	receives := audiences()
	var b strings.Builder
	b.WriteString("\n| actor | package | receives | decides |\n|---|---|---|---|\n")
	for _, d := range deciders {
		fmt.Fprintf(&b, "| %s | `actors/%s` | %s | %s |\n", d.name, d.packageName,
			strings.Join(receives[d.ref], ", "), strings.Join(decisionsOf(t, d.packageName, receives[d.ref]), ", "))
	}
	b.WriteString("\nEvery actor also receives AgentStarted, and TimerFired of the timers that it has set.\n\n")

	keepTable(t, "actors", "ActorsTable", b.String())
}

// keepTable compares a table of docs/ARCHITECTURE.md with what it is to be, or writes it.
func keepTable(t *testing.T, name, run, want string) {
	t.Helper()
	begins := fmt.Sprintf("<!-- %s: written by `go test ./test/arch -run %s -arch.update` -->\n", name, run)
	ends := fmt.Sprintf("<!-- end of %s -->\n", name)
	path := filepath.Join(root, actorsDoc)
	doc, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(doc), begins)
	is, after, ok2 := strings.Cut(rest, ends)
	if !ok || !ok2 {
		t.Fatalf("%s has no place for the table: it is between %q and %q", actorsDoc, begins, ends)
	}
	if is == want {
		return
	}
	if !*updateActors {
		t.Fatalf("the table in %s is out of date: go test ./test/arch -run %s -arch.update", actorsDoc, run)
	}
	if err := os.WriteFile(path, []byte(before+begins+want+ends+after), 0o600); err != nil {
		t.Fatal(err)
	}
}

// audiences returns the names of the events that each actor receives, in the order of the contract.
func audiences() map[messages.Ref][]string {
	receives := map[messages.Ref][]string{}
	kinds := (&journaletv1.Event{}).ProtoReflect().Descriptor().Fields()
	for i := range kinds.Len() {
		fd := kinds.Get(i)
		heard := map[messages.Ref]bool{}
		for _, requester := range []messages.Ref{messages.Pod("u"), messages.Image} {
			e := &journaletv1.Event{}
			fillIn(e.ProtoReflect().Mutable(fd).Message(), requester.String())
			refs, everyone := messages.Audience(messages.Agent, e)
			for _, ref := range refs {
				heard[ref] = !everyone
			}
		}
		for _, d := range deciders {
			if heard[d.ref] {
				receives[d.ref] = append(receives[d.ref], string(fd.Message().Name()))
			}
		}
	}
	return receives
}

// fillIn sets every field that Audience may take an actor from.
func fillIn(m protoreflect.Message, requester string) {
	for name, value := range map[protoreflect.Name]string{"uid": "u", "source": "s", "requester": requester} {
		if f := m.Descriptor().Fields().ByName(name); f != nil && f.Kind() == protoreflect.StringKind {
			m.Set(f, protoreflect.ValueOfString(value))
		}
	}
	if f := m.Descriptor().Fields().ByName("pod"); f != nil && f.Kind() == protoreflect.MessageKind {
		m.Mutable(f).Message().Set(f.Message().Fields().ByName("uid"), protoreflect.ValueOfString("u"))
	}
}

// builders are functions that build an event, by its name.
var builders = map[string]string{
	"SetTimer": "TimerSet", "ClearTimer": "TimerCleared", "NewCall": "CallRequested",
	"preferenceRequested": "PreferredDevicesRequested",
}

// decisionsOf returns the names of the events that a package of actors/ builds, in the order of the contract. It leaves
// out events that the actor receives: the actor keeps copies of them.
func decisionsOf(t *testing.T, name string, received []string) []string {
	t.Helper()
	built := map[string]bool{}
	for _, f := range mustLoad(t, root).own() {
		if !within(f.path, "actors/"+name) || f.test {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CompositeLit:
				if sel, ok := n.Type.(*ast.SelectorExpr); ok {
					built[strings.TrimPrefix(sel.Sel.Name, "Event_")] = true
				}
			case *ast.CallExpr:
				if fun, ok := n.Fun.(*ast.Ident); ok && fun.Name == "new" && len(n.Args) == 1 {
					if sel, ok := n.Args[0].(*ast.SelectorExpr); ok {
						built[sel.Sel.Name] = true
					}
				}
			case *ast.SelectorExpr:
				if event := builders[n.Sel.Name]; event != "" {
					built[event] = true
				}
			}
			return true
		})
	}
	var all []string
	kinds := (&journaletv1.Event{}).ProtoReflect().Descriptor().Fields()
	for i := range kinds.Len() {
		if event := string(kinds.Get(i).Message().Name()); built[event] && !slices.Contains(received, event) {
			all = append(all, event)
		}
	}
	return slices.Compact(all)
}
