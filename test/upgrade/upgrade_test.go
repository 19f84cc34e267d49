package upgrade

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/source/manifest"
	"github.com/journalet/journalet/test/must"
	"github.com/journalet/journalet/test/node"
	"github.com/journalet/journalet/test/simulation"
)

const (
	// nodeName is the node of the recording: a journal belongs to one name.
	nodeName = "upgrade"
	// settle bounds what the agent does on a runtime that answers at once.
	settle = time.Minute
	// manifests is the directory of manifests. Its path is part of the pods' UIDs, so it is the same in the recording
	// and for each reader.
	manifests = "/proc/self/cwd/pods"
	// relists is how often the agent must have listed the whole runtime before nothing more is expected of it.
	relists = 3
)

func build(t *testing.T) (program string) {
	t.Helper()
	program, err := node.Build(t.TempDir())
	must.OK(t, err)
	return program
}

// adopting prepares an agent with the recorded root directory, on the recorded runtime.
func adopting(t *testing.T, program, recording string) (*node.Agent, *frozen, *recorded) {
	t.Helper()
	rt := &frozen{}
	a := newAgent(t, program, rt)
	past := unpack(t, recording, a.Dir)
	rt.show(t, past, markOf(a.Root))
	return a, rt, past
}

func TestAgentAdoptsRecordedRootUnchanged(t *testing.T) {
	program := build(t)
	if *record {
		t.Run("record", func(t *testing.T) { recordRoot(t, program) })
	}
	for _, recording := range recordings(t) {
		t.Run(filepath.Base(recording), func(t *testing.T) { adopted(t, program, recording) })
	}
}

func adopted(t *testing.T, program, recording string) {
	a, rt, past := adopting(t, program, recording)
	if diff := simulation.Difference(past.State, folded(t, a)); diff != "" {
		t.Errorf("its journal folds to another state: %s", diff)
	}
	a.Start()
	node.Eventually(t, settle, "every pod as it was reported", func() error { return reported(a, past.Views, views) })
	// A new pod shows that the agent works; what it does to the others would come before that.
	a.Put("new.yaml", node.Manifest(node.Pod("new", node.Image, node.Idle)))
	node.Eventually(t, settle, "the new pod's sandbox, and more relists", func() error {
		calls, listed := rt.received()
		created := func(c string) bool { return strings.HasPrefix(c, "RunPodSandbox new-"+nodeName) }
		if listed < relists || !slices.ContainsFunc(calls, created) {
			return fmt.Errorf("%d relists, calls: %v", listed, calls)
		}
		return nil
	})
	untouched(t, rt, "new-"+nodeName)
	if err := reported(a, past.Views, views); err != nil {
		t.Error(err)
	}
	a.Verified()

	// This run stops what the recorded run started: the right container of the right pod.
	a.Remove("web.yaml")
	var want string
	for id, pod := range past.running(t) {
		if pod == "web-"+nodeName {
			want = "StopContainer " + id
		}
	}
	node.Eventually(t, settle, want, func() error {
		if calls, _ := rt.received(); !slices.Contains(calls, want) {
			return fmt.Errorf("calls: %v", calls)
		}
		return nil
	})
	a.Kill()
	rt.forget()
}

// TestAgentRefusesRootOfAnotherFormatUnchanged refuses before anything in the root directory is touched. The way out
// that the error names leaves the pods running.
func TestAgentRefusesRootOfAnotherFormatUnchanged(t *testing.T) {
	a, rt, past := adopting(t, build(t), recording)
	for _, format := range []int{messages.JournalFormat - 1, messages.JournalFormat + 1} {
		setFormat(t, a.Root, format)
		before := contents(t, a.Root)
		for range 2 { // a service manager tries again
			a.Spawn()
			if code := a.Process.Ended(t); code != 1 {
				t.Errorf("exit code %d", code)
			}
			for _, words := range []string{
				fmt.Sprintf("has format %d,", format), fmt.Sprintf("reads format %d only", messages.JournalFormat),
				"Nothing was changed", "move " + a.Root + "/bus aside",
			} {
				if !strings.Contains(a.Process.Text(), words) {
					t.Errorf("%q is missing in:\n%s", words, a.Process.Text())
				}
			}
		}
		if after := contents(t, a.Root); !maps.Equal(before, after) {
			t.Errorf("the files of the root directory changed: now %v, before %v",
				slices.Sorted(maps.Keys(after)), slices.Sorted(maps.Keys(before)))
		}
	}
	if calls, listed := rt.received(); len(calls) > 0 || listed > 0 {
		t.Errorf("an agent that refused its root called the runtime: %d relists, %v", listed, calls)
	}

	must.OK(t, os.Rename(filepath.Join(a.Root, "bus"), filepath.Join(a.Dir, "aside")))
	a.Start()
	node.Eventually(t, settle, "every running container in its pod's status", func() error {
		if _, listed := rt.received(); listed < relists {
			return fmt.Errorf("%d relists", listed)
		}
		return reported(a, past.running(t), running)
	})
	untouched(t, rt, "")
	a.Kill()
	rt.forget()
}

// untouched fails if the runtime was to be changed for a pod other than this one; empty: for any.
func untouched(t *testing.T, rt *frozen, but string) {
	t.Helper()
	calls, _ := rt.received()
	for _, c := range calls {
		if but == "" || !strings.Contains(c, but) {
			t.Errorf("the agent tried to change the runtime: %s", c)
		}
	}
}

// reported compares what the agent reports, as f shows it, with want; the new pod is left out.
func reported(a *node.Agent, want map[string]string, f func(*node.Agent) (map[string]string, error)) error {
	now, err := f(a)
	delete(now, "new-"+nodeName)
	if err == nil && !maps.Equal(now, want) {
		err = fmt.Errorf("the pods are\n%s\nwant\n%s", lines(now), lines(want))
	}
	return err
}

// running returns the pod names of the running containers, by container id.
func running(a *node.Agent) (map[string]string, error) {
	pods, err := a.Pods()
	out := map[string]string{}
	for _, p := range pods {
		for _, c := range p.Status.ContainerStatuses {
			if c.State.Running != nil {
				out[node.BareID(c.ContainerID)] = p.Name
			}
		}
	}
	return out, err
}

// contents returns all files below dir with their contents.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			out[path] = string(readFile(t, path))
		}
		return err
	})
	must.OK(t, err)
	return out
}

// headSlot is the size of each of the two heads in the file HEAD: length, CRC-32C, and the message.
const headSlot = 512

// setFormat writes another format into the head of the journal below root.
func setFormat(t *testing.T, root string, format int) {
	t.Helper()
	path := filepath.Join(root, "bus", "HEAD")
	file := readFile(t, path)
	for slot := range slices.Chunk(file, headSlot) {
		n := binary.LittleEndian.Uint32(slot)
		if n == 0 {
			continue
		}
		h := new(journaletv1.Head)
		err := proto.Unmarshal(slot[8:8+n], h)
		h.Format = uint32(format)
		body, encoding := proto.Marshal(h)
		if err = errors.Join(err, encoding); err != nil {
			t.Fatal(err)
		}
		binary.LittleEndian.PutUint32(slot, uint32(len(body)))
		binary.LittleEndian.PutUint32(slot[4:], crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)))
		copy(slot[8:], body)
	}
	must.OK(t, os.WriteFile(path, file, 0o600))
}

// folded returns what the journal of a stopped agent folds to. It does not change the files.
func folded(t *testing.T, a *node.Agent) string {
	t.Helper()
	b, err := bus.Prepare(t.Context(), bus.Options{
		Dir: filepath.Join(a.Root, "bus"), Node: nodeName, Log: slog.New(slog.DiscardHandler),
	})
	must.OK(t, err)
	defer func() { _ = b.Close(t.Context()) }()
	var recs []*journaletv1.Record
	if err := b.Journal().Read(t.Context(), 1, 0, "", func(rec *journaletv1.Record, _ int) error {
		recs = append(recs, rec)
		return nil
	}); err != nil || b.Journal().First() != 1 {
		t.Fatalf("from record %d on: %v", b.Journal().First(), err)
	}
	state, err := simulation.StateText(recs, func(digest string) (*corev1.Pod, error) {
		text, err := b.Manifests().Get(t.Context(), digest)
		if err != nil {
			return nil, err
		}
		return manifest.Load(text)
	})
	must.OK(t, err)
	return string(state)
}

// newAgent prepares an agent on a runtime that is not a real one.
func newAgent(t *testing.T, program string, rt server) *node.Agent {
	t.Helper()
	endpoint := serve(t, rt)
	runtime, err := node.Dial(endpoint)
	must.OK(t, err)
	t.Cleanup(func() { _ = runtime.Conn().Close() })
	a := (&node.Setup{Program: program, Runtime: runtime}).NewAgent(t, settle, nil,
		"--static-pod-path", manifests, "--allow-beside-kubelet", "--resolv-conf", "", "--cgroups-per-qos=false")
	a.Node = nodeName
	a.ImageGC = true // an older version does not know the flag that disables it
	return a
}

// views returns what pods report, by name.
func views(a *node.Agent) (map[string]string, error) {
	pods, err := a.Pods()
	out := map[string]string{}
	for _, p := range pods {
		out[p.Name] += view(&p) // two of one name are another view
	}
	return out, err
}

func view(p *corev1.Pod) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s %s %s", p.UID, p.Status.Phase, p.Status.Reason, p.Status.PodIP, at(p.Status.StartTime))
	for _, c := range p.Status.Conditions {
		fmt.Fprintf(&b, " %s=%s@%s", c.Type, c.Status, at(&c.LastTransitionTime))
	}
	for _, c := range p.Status.ContainerStatuses {
		fmt.Fprintf(&b, " %s/%s/%d/%t", c.Name, c.ContainerID, c.RestartCount, c.Ready)
		for _, s := range []corev1.ContainerState{c.State, c.LastTerminationState} {
			switch {
			case s.Running != nil:
				fmt.Fprintf(&b, "/running@%s", at(&s.Running.StartedAt))
			case s.Terminated != nil:
				fmt.Fprintf(&b, "/%s-%d@%s", s.Terminated.Reason, s.Terminated.ExitCode, at(&s.Terminated.FinishedAt))
			case s.Waiting != nil:
				fmt.Fprintf(&b, "/%s", s.Waiting.Reason)
			}
		}
	}
	return b.String()
}

func at(t *metav1.Time) string {
	if t == nil {
		return "-"
	}
	return t.UTC().Format(time.RFC3339)
}

func lines(views map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(views)) {
		fmt.Fprintf(&b, "  %s %s\n", name, views[name])
	}
	return b.String()
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	must.OK(t, err)
	return b
}
