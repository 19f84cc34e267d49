package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/journalet/journalet/actors"
	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/api/query"
	"github.com/journalet/journalet/test/must"
)

func run(ctx context.Context, args ...string) (code int, out, errs string) {
	var o, e bytes.Buffer
	code = execute(ctx, "journalet", args, &o, &e)
	return code, o.String(), e.String()
}

// noPods is a host without actors.
type noPods struct{}

func (noPods) Inspect(context.Context, messages.Ref, func(actors.Decider)) error {
	return errors.New("there is none")
}
func (noPods) Refs(journaletv1.ActorKind) []messages.Ref              { return nil }
func (noPods) LiftQuarantine(messages.Ref, bool) error                { return nil }
func (noPods) Quarantines() map[messages.Ref]*journaletv1.Quarantined { return nil }

// serveQueries serves queries on a bus until the test ends. o has the options that the test is about.
func serveQueries(t *testing.T, b *bus.Bus, o query.Options) {
	t.Helper()
	o.Conn, o.Host, o.Journal = b.Services(), noPods{}, b.Journal()
	o.Node, o.Version, o.Log = "node-1", "1.0.0", slog.New(slog.DiscardHandler)
	o.NodeView = func() pod.Node { return pod.Node{} }
	stop, err := query.Serve(context.Background(), o)
	must.OK(t, err)
	t.Cleanup(stop)
}

// agentRoot returns the root directory of a running agent with three records in its journal.
func agentRoot(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	b := openBus(t, root, "node-1")
	t.Cleanup(func() { _ = b.Close(context.Background()) })
	serveQueries(t, b, query.Options{})
	for i := range 3 {
		must.OK(t, b.Journal().Append(agentStopped(now.Add(time.Duration(i)*time.Second))))
	}
	must.OK(t, b.Journal().Flush(t.Context()))
	return root
}

func agentStopped(at time.Time) *journaletv1.Record {
	stopped := &journaletv1.Event_AgentStopped{AgentStopped: &journaletv1.AgentStopped{Reason: "test"}}
	return fact(messages.Agent, at, &journaletv1.Event{Kind: stopped})
}

func fact(actor messages.Ref, at time.Time, e *journaletv1.Event) *journaletv1.Record {
	return &journaletv1.Record{
		Time: timestamppb.New(at), Actor: actor.Proto(), Body: &journaletv1.Record_Fact{Fact: e},
	}
}

func TestExitCodesClassifyErrors(t *testing.T) {
	root := agentRoot(t)
	empty := t.TempDir()
	for _, c := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"help", []string{"--help"}, exitOK, ""},
		{"version", []string{"version"}, exitOK, ""},
		{"unknown command", []string{"pods-list"}, exitUsage, "unknown command"},
		{"typo in a command", []string{"obsrve"}, exitUsage, "did you mean observe?"},
		{"unknown flag", []string{"pods", "--frobnicate"}, exitUsage, "--frobnicate"},
		{"unknown format", []string{"pods", "-o", "xml"}, exitUsage, "want table, wide, json, yaml, name"},
		{"argument missing", []string{"pod"}, exitUsage, "accepts 1 arg"},
		{"argument too many", []string{"pods", "web"}, exitUsage, ""},
		{"two starts", []string{"observe", "--from", "1", "--since", "1m"}, exitUsage, "--since"},
		{"no number", []string{"observe", "--from", "abc"}, exitUsage, `"--from" flag: want a whole number of at least 0`},
		{"too large", []string{"observe", "--from", "99999999999999999999"}, exitUsage, "the number is too large"},
		{"neither true nor false", []string{"observe", "--follow=x"}, exitUsage, "want true or false"},
		{"no such event", []string{"observe", "--event", "boom"}, exitUsage, "want one of"},
		{"no such actor", []string{"observe", "--author", "web"}, exitUsage, "want kind/id"},
		{"no such cause", []string{"observe", "--cause", "0"}, exitUsage, "number of a record"},
		{"files do not grow", []string{"observe", "--journal", root, "--follow"}, exitUsage, "leave out --follow"},
		{"no such kind", []string{"observe", "--kind", "boom"}, exitUsage, "want agent"},
		{"server without a key", []string{"pods", "--server", "nats://localhost:1"}, exitUsage, "--nkey"},
		{"node without a server", []string{"pods", "--node", "x"}, exitUsage, "--server"},
		{"bad configuration", []string{"run", "--max-pods", "-1"}, exitUsage, "max-pods"},
		{"no agent", []string{"pods", "--root-dir", empty}, exitNoAgent, "journalet run --root-dir " + empty},
		{"no pod", []string{"pod", "web", "--root-dir", root}, exitNotFound, `pod "web" not found`},
		{"pods", []string{"pods", "--root-dir", root}, exitOK, "No pods on node node-1."},
		{"why without a pod", []string{"why"}, exitUsage, "accepts 1 arg"},
		{"why with an empty name", []string{"why", "", "--root-dir", root}, exitUsage, "no pod given"},
		{"why a record of a container", []string{"why", "2", "-c", "main"}, exitUsage, "namespace/2"},
		{"why restart 0", []string{"why", "web", "-c", "main", "--restart", "0"}, exitUsage, "from 1"},
		{"why no such pod", []string{"why", "web", "--root-dir", root}, exitNotFound, `pod "web" is not in the journal`},
		{"why no such record", []string{"why", "99", "--root-dir", root}, exitNotFound, "holds 1 to 3"},
		{"why no journal", []string{"why", "1", "--journal", empty}, exitNotFound, "name an agent's root directory"},
		{"verify", []string{"journal", "verify", "--root-dir", root}, exitOK, ""},
		{"size", []string{"journal", "size", "--root-dir", root}, exitOK, ""},
	} {
		code, _, errs := run(t.Context(), c.args...)
		if code != c.code || !strings.Contains(errs, c.want) {
			t.Errorf("%s: exit code %d with %q, want %d with %q", c.name, code, errs, c.code, c.want)
		}
	}
}

// kubeadm runs `kubelet --version`, and starts a unit with the kubelet's flags.
func TestCalledKubeletItIsOne(t *testing.T) {
	as := func(args ...string) (int, string, string) {
		var out, errs bytes.Buffer
		return execute(t.Context(), "/usr/bin/kubelet", args, &out, &errs), out.String(), errs.String()
	}
	code, out, _ := as("--version")
	if code != exitOK || !regexp.MustCompile(`^Kubernetes v1\.\d+\.\d+\+journalet\.[-\w.]+\n$`).MatchString(out) {
		t.Errorf("--version: %d, %q", code, out)
	}
	if code, out, _ = as("--help"); code != exitOK || !strings.Contains(out, `(default "/var/lib/kubelet")`) {
		t.Errorf("--help: %d\n%s", code, out)
	}
	if code, _, errs := as("--max_pods", "-1"); code != exitUsage || !strings.Contains(errs, "max-pods") {
		t.Errorf("a value out of bounds: %d, %s", code, errs)
	}
	if code, _, errs := as("pods"); code != exitUsage {
		t.Errorf("a command: %d, %s", code, errs)
	}
}

func TestObserveShowsThePastAsTextAndAsJSON(t *testing.T) {
	root := agentRoot(t)
	code, out, errs := run(t.Context(), "observe", "--no-follow", "--root-dir", root)
	if code != exitOK || strings.Count(out, "\n") != 3 || !strings.Contains(out, "#3") ||
		!strings.Contains(out, "agent stopped: test") {
		t.Errorf("text: %d\n%s%s", code, out, errs)
	}
	code, out, errs = run(t.Context(), "observe", "--no-follow", "--from", "3", "-o", "json", "--root-dir", root)
	var f messages.Flat
	if err := json.Unmarshal([]byte(out), &f); err != nil || code != exitOK || f.Seq != 3 || f.Event != "agent_stopped" {
		t.Errorf("json: %d, %v\n%s%s", code, err, out, errs)
	}
}

func TestFollowingEndsQuietlyWhenItIsInterrupted(t *testing.T) {
	root := agentRoot(t)
	ctx, cancel := context.WithCancel(t.Context())
	r, w := io.Pipe()
	done := make(chan int, 1)
	var errs bytes.Buffer
	go func() {
		done <- execute(ctx, "journalet", []string{"observe", "--from", "1", "--root-dir", root}, w, &errs)
	}()
	if _, err := r.Read(make([]byte, 1024)); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, r) }()
	cancel()
	if code := <-done; code != exitOK || errs.Len() > 0 {
		t.Errorf("it ended with %d and %q", code, errs.String())
	}
	w.Close()
}

func TestEveryCommandHasAnExampleAndHelp(t *testing.T) {
	a, _ := testApp()
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Short == "" || c.Example == "" {
			t.Errorf("%q has no help or no example", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(a.command())
}

func TestObserveFiltersAndPrintsCloudEvents(t *testing.T) {
	root := agentRoot(t)
	show := func(args ...string) (lines []string, errs string, code int) {
		t.Helper()
		code, out, errs := run(t.Context(), append([]string{"observe", "--no-follow"}, args...)...)
		return strings.Split(strings.TrimSpace(out), "\n"), errs, code
	}
	for _, from := range [][]string{{"--root-dir", root}, {"--journal", root}} {
		lines, errs, code := show(append(from, "--cause", "2", "-o", "cloudevents")...)
		var e struct{ ID, Source, Type, Subject, Seq string }
		err := json.Unmarshal([]byte(lines[0]), &e)
		if err != nil || code != exitOK || len(lines) != 1 || e.Seq != "2" || !strings.HasSuffix(e.ID, ".2.0") ||
			e.Source != "//journalet/node-1" || e.Type != "io.journalet.agent_stopped.v1" || e.Subject != "agent/0" {
			t.Errorf("%v: %d, %v: %+v\n%q%s", from, code, err, e, lines, errs)
		}
		lines, errs, code = show(append(from, "--from", "2", "--event", "agent_stopped,agent_started")...)
		if code != exitOK || len(lines) != 2 || !strings.Contains(lines[1], "agent stopped: test") {
			t.Errorf("%v: %d\n%q%s", from, code, lines, errs)
		}
		lines, errs, code = show(append(from, "--author", "pod/u1")...)
		if code != exitOK || lines[0] != "" {
			t.Errorf("%v: an actor without events: %d\n%q%s", from, code, lines, errs)
		}
		if _, errs, code = show(append(from, "--cause", "99")...); code != exitNotFound || !strings.Contains(errs, "99") {
			t.Errorf("%v: a record that is not there: %d, %s", from, code, errs)
		}
	}
}
