//go:build integration

package integration

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/node"
)

// newerVersion is what a build of the same code calls itself here. What a build of older code left is opened by
// test/upgrade, which needs no runtime of its own.
const newerVersion = "999.0.0"

// onceMore is a script that ends its first run and goes on with its second.
const onceMore = "test -e /v/ran && { " + idle + "; }; touch /v/ran; exit 1"

// upgradePods are one of each kind that a change of versions could harm.
var upgradePods = map[string]string{
	"web.yaml":       manifest(newPod("web", idle, scratch)),
	"job.yaml":       manifest(newPod("job", "exit 0", restarts(corev1.RestartPolicyNever))),
	"restarted.yaml": manifest(newPod("restarted", onceMore, scratch)),
	"pair.yaml": manifest(newPod("pair", idle, func(p *corev1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, shell("two", idle))
	})),
}

// upgradable is an agent whose pods are as they stay.
func upgradable(t *testing.T) *agent {
	t.Helper()
	a := started(t, upgradePods)
	a.pods("all as they stay", func(pods map[string]*corev1.Pod) bool {
		return len(pods) == len(upgradePods) && ready(pods["web"]) && ready(pods["pair"]) && phase(corev1.PodSucceeded)(pods["job"]) &&
			ready(pods["restarted"]) && container(pods["restarted"], "main").RestartCount == 1
	})
	// The last that is done for them: the end of the job's sandbox.
	eventually(t, settle, "the last call's outcome", func() error {
		asked, done := a.journal.count(named("call_requested")), a.journal.count(named("call_finished"))
		if asked != done || a.journal.count(named("call_requested", "stop_sandbox")) == 0 {
			return fmt.Errorf("%d of %d calls are done", done, asked)
		}
		return nil
	})
	a.quiet()
	return a
}

func TestANewerVersionTakesOverRunningPodsAndTheOlderOneTakesThemBack(t *testing.T) {
	t.Parallel()
	a := upgradable(t)
	newer, err := node.Build(t.TempDir(), newerVersion)
	if err != nil {
		t.Fatal(err)
	}
	older := a.Program
	before, views := a.fingerprint(), a.views()
	for i, turn := range []struct {
		end     func()
		program string
		says    string
	}{
		{a.Stop, newer, newerVersion}, {a.Kill, older, "dev"}, {a.Kill, newer, newerVersion}, {a.Stop, older, "dev"},
	} {
		turn.end()
		a.Program = turn.program
		last := a.journal.last()
		a.start()
		a.journal.wait(t, last, node.Soon, "the version that starts", named("agent_started", fmt.Sprintf("%q:%q", "version", turn.says)))
		if info, err := a.Client.Info(t.Context()); err != nil || info.Version != turn.says {
			t.Errorf("turn %d: %+v, %v", i, info, err)
		}
		// A pod that comes and goes shows that this version is at work, on what the other one made too.
		served := fmt.Sprintf("served-%d", i)
		a.Put(served+".yaml", manifest(newPod(served, idle)))
		uid := string(a.pod(served, "ready", ready).UID)
		a.Remove(served + ".yaml")
		a.journal.wait(t, last, settle, "the end of "+served, named("pod_forgotten", uid))
		if after := a.fingerprint(); !maps.Equal(before, after) {
			t.Errorf("turn %d changed the runtime's objects:\n%v\n%v", i, before, after)
		}
		if after := a.views(); !slices.Equal(views, after) {
			t.Errorf("turn %d changed what pods report:\n%v\n%v", i, views, after)
		}
	}
	// And their restarts are counted on.
	stopContainer(t, container(a.podNow("restarted"), "main").ContainerID)
	a.pod("restarted", "restarted once more", func(p *corev1.Pod) bool { return ready(p) && container(p, "main").RestartCount == 2 })
	a.Verified()
}

// A newer version may have written what this one cannot fold. That is refused as a whole, before anything is touched:
// by the format in the journal's head, or, where a version forgot to raise that, by the first record or snapshot that is
// not known. Either way there is a way on with the older version, and it costs the history only.
func TestANewerVersionsJournalIsRefusedAndNothingIsTouched(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		write func(a *agent)
		says  []string
	}{
		{"a newer format", func(a *agent) { a.raiseFormat() }, []string{"format 2", "reads formats up to 1", "run the version that wrote it"}},
		{"a fact of another kind", func(a *agent) {
			a.leave("invented", &journaletv1.Record{Actor: messages.Agent.Proto(), Body: &journaletv1.Record_Fact{Fact: newerEvent()}})
		}, []string{"an event of another kind", "Run the version that wrote it", "--root-dir"}},
		{"a decision of another kind", func(a *agent) {
			a.leave(messages.Decided, &journaletv1.Record{Actor: messages.Image.Proto(), Body: &journaletv1.Record_Step{
				Step: &journaletv1.Step{Cause: 1, Decisions: []*journaletv1.Event{newerEvent()}},
			}})
		}, []string{"an event of another kind", "Run the version that wrote it", "--root-dir"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a := upgradable(t)
			before := a.fingerprint()
			a.Stop()
			a.forget()
			c.write(a)
			stored := a.stored()
			for range 2 { // refusing once must not make a way in
				text := refused(t, a.Args())
				for _, words := range c.says {
					if !strings.Contains(text, words) {
						t.Errorf("no word of %q in:\n%s", words, text)
					}
				}
			}
			if after := a.stored(); !slices.Equal(stored, after) {
				t.Errorf("the refused agent changed the journal's blocks")
			}
			if after := a.fingerprint(); !maps.Equal(before, after) {
				t.Errorf("the refused agent changed the runtime's objects:\n%v\n%v", before, after)
			}
			// The way on that the refusal names.
			if err := os.Rename(filepath.Join(a.Root, "bus"), filepath.Join(a.Dir, "bus-aside")); err != nil {
				t.Fatal(err)
			}
			a.start()
			a.pods("all as they were", func(pods map[string]*corev1.Pod) bool {
				return len(pods) == len(upgradePods) && ready(pods["web"]) && ready(pods["pair"]) && phase(corev1.PodSucceeded)(pods["job"]) &&
					ready(pods["restarted"]) && container(pods["restarted"], "main").RestartCount == 1
			})
			if after := a.fingerprint(); !maps.Equal(before, after) {
				t.Errorf("the agent with a new journal changed the runtime's objects:\n%v\n%v", before, after)
			}
			a.Verified()
		})
	}
}

// newerEvent is an event of a kind that is still to come.
func newerEvent() *journaletv1.Event {
	e := new(journaletv1.Event)
	e.ProtoReflect().SetUnknown(protowire.AppendBytes(protowire.AppendTag(nil, 1000, protowire.BytesType), []byte("\x0a\x01x")))
	return e
}

// headSlot is the room of each of the two heads in the head's file: length, CRC-32C, and the message.
const headSlot = 512

// raiseFormat makes the journal one of a format to come.
func (a *agent) raiseFormat() {
	a.T.Helper()
	path := filepath.Join(a.Root, "bus", "HEAD")
	file, err := os.ReadFile(path)
	if err != nil {
		a.T.Fatal(err)
	}
	raised := 0
	for slot := range slices.Chunk(file, headSlot) {
		n := binary.LittleEndian.Uint32(slot)
		if n == 0 {
			continue
		}
		h := new(journaletv1.Head)
		if err := proto.Unmarshal(slot[8:8+n], h); err != nil {
			a.T.Fatal(err)
		}
		h.Format = messages.JournalFormat + 1
		body, err := proto.Marshal(h)
		if err != nil {
			a.T.Fatal(err)
		}
		binary.LittleEndian.PutUint32(slot, uint32(len(body)))
		binary.LittleEndian.PutUint32(slot[4:], crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
		copy(slot[8:], body)
		raised++
	}
	if err := os.WriteFile(path, file, 0o600); err != nil || raised == 0 {
		a.T.Fatalf("%d heads were raised, %v", raised, err)
	}
}

// leave writes a record behind the last one of an agent that does not run, as the version to come would.
func (a *agent) leave(kind string, rec *journaletv1.Record) {
	a.T.Helper()
	a.opened(func(ctx context.Context, b *bus.Bus) error {
		tail, err := b.Journal().Tail(ctx, "", 1)
		if err != nil {
			return err
		}
		before, err := messages.Encode(tail[0])
		if err != nil {
			return err
		}
		rec.Seq, rec.Epoch, rec.PreviousHash = b.Journal().Last()+1, b.Opening().Epoch, messages.Hash(before)
		rec.Time = timestamppb.Now()
		stored, err := proto.Marshal(rec)
		if err != nil {
			return err
		}
		author := messages.RefOf(rec.GetActor())
		subject := strings.TrimSuffix(messages.ActorFilter(a.Node, author), ">") + kind
		answer, err := b.Services().RequestWithContext(ctx, subject, stored)
		if err == nil && strings.Contains(string(answer.Data), "error") {
			err = fmt.Errorf("the journal's stream says %s", answer.Data)
		}
		return err
	})
}

// stored are the journal's blocks, as they lie on the disk.
func (a *agent) stored() (blocks []string) {
	a.T.Helper()
	paths, err := filepath.Glob(filepath.Join(a.Root, "bus", "jetstream", "*", "streams", "JOURNAL", "msgs", "*.blk"))
	if err != nil || len(paths) == 0 {
		a.T.Fatalf("no blocks of a journal in %s: %v", a.Root, err)
	}
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			a.T.Fatal(err)
		}
		blocks = append(blocks, filepath.Base(path)+string(b))
	}
	return blocks
}

// opened gives the bus of an agent that does not run.
func (a *agent) opened(do func(context.Context, *bus.Bus) error) {
	a.T.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), node.Soon)
	defer cancel()
	b, err := bus.Open(ctx, bus.Options{Dir: filepath.Join(a.Root, "bus"), Node: a.Node, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		a.T.Fatal(err)
	}
	if err := do(ctx, b); err != nil {
		a.T.Error(err)
	}
	if err := b.Close(ctx); err != nil {
		a.T.Error(err)
	}
}
