package feed

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/types/known/timestamppb"
	corev1 "k8s.io/api/core/v1"

	podactor "github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/runtime/source/manifest"
	"github.com/journalet/journalet/test/must"
)

const node = "node-1"

// sizes are the lengths of a pod's identifiers and of its lists.
type sizes struct {
	uid, name, namespace, container, volume, gate, label       int
	containers, gates, hostPorts, labelBytes, annotationsBytes int
}

// most are the largest sizes that a manifest may have.
func most() sizes {
	return sizes{
		uid: 64, name: 253 - len("-"+node), namespace: 63, container: 63, volume: 63, gate: 253 + 1 + 63, label: 63,
		containers: manifest.MaxContainers, gates: 100, hostPorts: 1, labelBytes: 250 << 10,
		annotationsBytes: 250 << 10,
	}
}

// mostPorts are the sizes of a pod with the most ports: it has no room for as many labels and annotations.
func mostPorts() sizes {
	s := most()
	s.hostPorts, s.labelBytes, s.annotationsBytes = 10_000, 1<<10, 1<<10
	return s
}

// id returns a distinct lower-case name of n bytes.
func id(i, n int) string {
	text := fmt.Sprintf("x%d", i)
	return text + strings.Repeat("x", max(0, n-len(text)))
}

// name returns a DNS subdomain of n bytes.
func name(n int) string {
	return strings.Trim(strings.Repeat("abcdefgh.", n/9+1)[:n-1], ".") + strings.Repeat("z", 1+btoi(n%9 == 1))
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// manifestOf returns a pod of these sizes.
func manifestOf(s sizes) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: v1\nkind: Pod\nmetadata:\n  name: %s\n  namespace: %s\n  uid: %s\n  labels:\n",
		name(s.name), id(0, s.namespace), id(0, s.uid))
	for i := range s.labelBytes / (10 + s.label) {
		fmt.Fprintf(&b, "    k%s: %s\n", id(i, 9), id(0, s.label))
	}
	fmt.Fprintf(&b, "  annotations: {a: %s}\nspec:\n  readinessGates:\n", strings.Repeat("x", s.annotationsBytes))
	for i := range s.gates {
		fmt.Fprintf(&b, "  - conditionType: %s/%s\n", name(s.gate-64), id(i, 63))
	}
	fmt.Fprintf(&b, "  volumes: [{name: %s, emptyDir: {}}]\n  containers:\n", id(0, s.volume))
	for i := range s.containers {
		fmt.Fprintf(&b, "  - name: %s\n    image: %s\n", id(i, s.container), image)
	}
	b.WriteString("    ports:\n")
	for i := range s.hostPorts {
		fmt.Fprintf(&b, "    - {containerPort: 1, hostPort: %d, hostIP: %s}\n", i+1, address)
	}
	return []byte(b.String())
}

const address = "2001:0db8:aaaa:bbbb:cccc:dddd:eeee:ffff"

// image is as long as a reference may be, with its digest.
var image = "r.io/" + strings.Repeat("x", 240) + ":" + strings.Repeat("t", 100)

// A manifest must not pass what the journal refuses: its pod would be Pending for ever.
func TestLargestPodFitsTheJournal(t *testing.T) {
	b, err := bus.Open(t.Context(), bus.Options{Dir: filepath.Join(t.TempDir(), "bus"), Node: node,
		Log: slog.New(slog.DiscardHandler)})
	must.OK(t, err)
	t.Cleanup(func() { _ = b.Close(context.Background()) })
	for _, size := range []sizes{most(), mostPorts()} {
		file, pods := Decode("p.yaml", "/p.yaml", manifestOf(size), manifest.Options{NodeName: node})
		if len(pods) != 1 {
			t.Fatalf("the largest pod is refused: %v", file.GetProblems())
		}
		pod := pods[0].Pod
		var gates []string
		for _, g := range pod.Spec.ReadinessGates {
			gates = append(gates, string(g.ConditionType))
		}
		for what, event := range map[string]*journaletv1.Event{
			"read": messages.NewEvent(&journaletv1.ManifestsRead{
				Source: "file", Changed: []*journaletv1.ManifestFile{file},
			}),
			"admission":   messages.NewEvent(podactor.AdmissionRequest(file.GetPods()[0], pod)),
			"gates":       messages.NewEvent(&journaletv1.ReadinessGatesSet{Types: gates}),
			"observation": messages.NewEvent(observationOf(pod)),
		} {
			rec := &journaletv1.Record{Time: timestamppb.Now(), Actor: messages.Pod(string(pod.UID)).Proto(),
				Body: &journaletv1.Record_Fact{Fact: event}}
			if err := b.Journal().AppendFact(t.Context(), rec); err != nil {
				t.Errorf("%s: %v", what, err)
			}
		}
		must.OK(t, b.Journal().Flush(t.Context()))
		must.OK(t, b.Manifests().Put(t.Context(), pods[0].Digest, pods[0].Canonical))
	}
}

// observationOf returns the largest observation of a pod: two instances of each container, with termination messages.
func observationOf(pod *corev1.Pod) *journaletv1.PodObserved {
	o := &journaletv1.PodObserved{Uid: string(pod.UID), ObservedAt: timestamppb.Now(), PodNamespace: pod.Namespace,
		PodName: pod.Name}
	for i := range pod.Spec.Containers {
		for attempt := range uint32(2) {
			o.Containers = append(o.Containers, &journaletv1.ContainerObservation{
				Id: strings.Repeat("i", 64), Name: pod.Spec.Containers[i].Name, Attempt: attempt,
				SandboxId: strings.Repeat("s", 64), CreatedAt: timestamppb.Now(), StartedAt: timestamppb.Now(),
				FinishedAt: timestamppb.Now(), ExitCode: 137, Reason: "OOMKilled", Message: strings.Repeat("m", 4096),
				Image: image, ImageRef: image + "@sha256:" + strings.Repeat("a", 64), Hash: "ffffffff",
				IntentId: messages.DecisionID(1<<40, 1<<40, messages.Pod(string(pod.UID)), 1000),
			})
		}
	}
	return o
}

func TestIdentifiersBeyondTheirLimitsAreRefusedByName(t *testing.T) {
	for field, change := range map[string]func(*sizes){
		"metadata.uid":                func(s *sizes) { s.uid++ },
		"metadata.name":               func(s *sizes) { s.name++ },
		"metadata.namespace":          func(s *sizes) { s.namespace++ },
		"metadata.labels":             func(s *sizes) { s.label++ },
		"metadata.annotations":        func(s *sizes) { s.annotationsBytes += 10 << 10 },
		"spec.containers[0].name":     func(s *sizes) { s.container++ },
		"spec.volumes[0].name":        func(s *sizes) { s.volume++ },
		"spec.containers":             func(s *sizes) { s.containers++ },
		"spec.readinessGates":         func(s *sizes) { s.gates++ },
		"spec.readinessGates[0].cond": func(s *sizes) { s.gate++ },
	} {
		s := most()
		change(&s)
		_, problems := manifest.Decode("/p.yaml", manifestOf(s), manifest.Options{NodeName: node})
		if len(problems) == 0 || !strings.HasPrefix(problems[0].Field, field) || problems[0].Line == 0 {
			t.Errorf("%s: %.200v", field, problems)
		}
	}
	ports := mostPorts()
	ports.hostPorts++
	labels := most()
	labels.labelBytes += 10 << 10
	for what, s := range map[string]sizes{"host ports": ports, "bytes in all": labels} {
		_, problems := manifest.Decode("/p.yaml", manifestOf(s), manifest.Options{NodeName: node})
		if len(problems) != 1 || !strings.Contains(problems[0].Message, what) {
			t.Errorf("%s: %.200v", what, problems)
		}
	}
}
