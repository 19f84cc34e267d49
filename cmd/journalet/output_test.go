package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/journalet/journalet/actors/pod"
	"github.com/journalet/journalet/bus"
	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/runtime/api/query"
	"github.com/journalet/journalet/runtime/history/describe"
	"github.com/journalet/journalet/runtime/preflight"
	"github.com/journalet/journalet/runtime/source/manifest"
	"github.com/journalet/journalet/runtime/takeover/preview"
	"github.com/journalet/journalet/test/must"
)

var update = flag.Bool("update", false, "write the golden files; review the differences")

// golden compares what a command printed with testdata/<name>.txt.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".txt")
	if *update {
		must.OK(t, os.WriteFile(path, []byte(got), 0o640))
	}
	want, err := os.ReadFile(path)
	must.OK(t, err)
	if got != string(want) {
		t.Errorf("%s: printed\n%s\nwant\n%s(go test -update writes it)", name, got, want)
	}
}

func testApp() (*app, *bytes.Buffer) {
	var out bytes.Buffer
	return &app{out: &screen{&out}, err: &screen{&out}, now: func() time.Time { return now }, output: formatTable}, &out
}

func named(p *corev1.Pod, namespace, name string) *corev1.Pod {
	p.Namespace, p.Name, p.UID = namespace, name, types.UID("uid-of-"+name)
	p.CreationTimestamp = ago(90 * time.Minute)
	return p
}

func somePods() *corev1.PodList {
	web := named(podWith(corev1.PodRunning, running(), running()), "default", "web-node-1")
	web.Status.PodIP, web.Status.PodIPs = "10.88.0.4", []corev1.PodIP{{IP: "10.88.0.4"}}
	web.Annotations = map[string]string{manifest.ConfigSourceAnnotation: "file"}
	crash := named(podWith(corev1.PodRunning, waiting("CrashLoopBackOff")), "default", "crasher-with-a-long-name-node-1")
	crash.Status.ContainerStatuses[0].RestartCount = 12
	crash.Status.ContainerStatuses[0].LastTerminationState = terminated(1, 0, "Error")
	orphan := named(podWith(corev1.PodUnknown), "", "") // only its UID is known
	orphan.UID, orphan.Status.Reason = "0d95812e", pod.ReasonOrphan
	return &corev1.PodList{Items: []corev1.Pod{*orphan, *crash, *web}}
}

func TestPodsAsATable(t *testing.T) {
	for name, table := range map[string]*podTable{
		"pods":            {},
		"pods-wide":       {wide: true, node: "node-1"},
		"pods-namespaces": {namespaces: true},
	} {
		a, out := testApp()
		table.w = a.out
		table.show(now, somePods(), true)
		golden(t, name, out.String())
	}
}

func TestWatchedTablePrintsOnlyChangedRowsInTheirColumns(t *testing.T) {
	a, out := testApp()
	table := &podTable{table: table{w: a.out}}
	table.show(now, somePods(), true)
	before := out.Len()
	table.show(now.Add(time.Hour), somePods(), false)
	if out.Len() != before {
		t.Fatalf("time alone printed %q", out.String()[before:])
	}
	pods := somePods()
	pods.Items[2].Status.ContainerStatuses[0].State = waiting("CrashLoopBackOff")
	table.show(now, pods, false)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	last := lines[len(lines)-1]
	if len(lines) != 5 || !strings.HasPrefix(last, "web-node-1") ||
		strings.Index(last, "CrashLoop") != strings.Index(lines[0], "STATUS") {
		t.Fatalf("printed\n%s", out)
	}
}

func TestPodIsDescribed(t *testing.T) {
	p := &somePods().Items[1]
	p.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: ago(time.Minute),
			Reason: "ContainersNotReady", Message: "containers with unready status: [a]"},
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: ago(time.Hour)},
	}
	p.Status.ContainerStatuses[0].LastTerminationState.Terminated.StartedAt = ago(10 * time.Second)
	a, out := testApp()
	(&description{w: a.out, now: now, node: "node-1"}).pod(&query.PodReport{
		Pod: p, Source: "file", Digest: "sha256:0123", Stage: "Running",
		Quarantine: &query.Quarantine{Cause: 1041, Code: "Panic", Message: "index out of range"},
		Decisions: []describe.Line{
			{Flat: messages.Flat{Seq: 1040, Time: "2026-02-28T23:59:59.9Z", Event: "call_requested", Cause: 1039},
				Text: "requested: create sandbox"},
			{Flat: messages.Flat{Seq: 1042, Time: "2026-03-01T11:59:55.123456789Z", Event: "call_requested", Cause: 1041},
				Text: "requested: start container a (attempt 1)", CauseText: "container a exited 1 (Error)"},
		},
		Events: []describe.PodEvent{{Seq: 1042, Time: now.Add(-5 * time.Second), Type: "Normal", Reason: "Started",
			Message: "Started container a (attempt 1)"}},
	})
	golden(t, "pod", out.String())
}

func TestChecksAsATableWithRemedies(t *testing.T) {
	a, out := testApp()
	err := a.printChecks([]checkRow{
		{"runtime", string(preflight.OK), "containerd v2.4.2", ""},
		{"swap", string(preflight.Warn), "swap is on", "swapoff -a"},
		{"cni", string(preflight.Fail), "no network configuration\nin /etc/cni/net.d", "install a CNI configuration"},
	})
	if exitCode(err) != exitError || errorText(t.Context(), "", err) != "" {
		t.Errorf("a failed check ends with %v", err)
	}
	golden(t, "check", out.String())
	if err := a.printChecks([]checkRow{{"swap", string(preflight.Warn), "on", "off"}}); err != nil {
		t.Errorf("a warning ends with %v", err)
	}
}

func TestPreviewOfATakeOverAsATable(t *testing.T) {
	a, out := testApp()
	a.printPreview(&preview.Report{
		Pods: []preview.Pod{
			{Namespace: "default", Name: "web-0", Source: "api", Running: 2, Outcome: preview.TakenOver},
			{Namespace: "default", Name: "web-1", Source: "api", Running: 1, Outcome: preview.TakenOver,
				Details: []string{"container c does not run: its restart policy decides"}},
			{Namespace: "kube-system", Name: "etcd-n1", Running: 1, Outcome: preview.Ends,
				Details: []string{"no source names it: its containers end after a minute"}},
		},
		Unread: []string{"http"}, Problems: []string{"etcd.yaml: spec.x: unknown field"},
	})
	golden(t, "adopt", out.String())
}

// TestTakeOverPageShowsWhatTheCommandsPrint holds the page to the form of what adopt and handback print. That these are
// the outcomes of such pods and their details is for the tests of package preview.
func TestTakeOverPageShowsWhatTheCommandsPrint(t *testing.T) {
	page, err := os.ReadFile("../../docs/TAKE-OVER.md")
	must.OK(t, err)
	shows := func(command, printed string) {
		t.Helper()
		if block := "```\n$ " + command + "\n" + printed; !strings.Contains(string(page), block) {
			t.Errorf("docs/TAKE-OVER.md does not show\n%s", block)
		}
	}
	taken := func(name, source string, running int, details ...string) preview.Pod {
		return preview.Pod{Namespace: "default", Name: name, Source: source, Running: running,
			Outcome: preview.TakenOver, Details: details}
	}
	a, out := testApp()
	a.printPreview(&preview.Report{Pods: []preview.Pod{
		taken("crashes", "api", 0, "container c does not run: its restart policy decides"), taken("probed", "api", 2),
		taken("static-ours", "file", 1), taken("web-85f8d7955d-6zlfm", "api", 1), taken("web-85f8d7955d-kmhf5", "api", 1),
		taken("web-85f8d7955d-qdlcr", "api", 1),
	}})
	shows("journalet adopt --check --from-kubelet", out.String()+"```\n")

	const given = "77567f7d48da7e07296effe4568f4145"
	a, out = testApp()
	must.OK(t, printValue(a.out, formatYAML, &preview.Report{Pods: []preview.Pod{
		{Namespace: "default", Name: "later-ours", UID: given, Source: "file", Running: 1, Outcome: preview.Restarts,
			Details: []string{"a kubelet gives it another UID: write uid: " + given +
				" into the metadata of its manifest before"}},
		{Namespace: "default", Name: "probed", UID: "82576261-84c7-493f-90cd-cc3c0048c5fa", Running: 2,
			Outcome: preview.Kept},
		{Namespace: "default", Name: "static-ours", UID: "2f83d41233c19f693e68ea23c824420f", Source: "file", Running: 1,
			Outcome: preview.Kept},
	}}))
	shows("journalet handback --check --config /var/lib/kubelet/config.yaml -o yaml", out.String()+"...\n")
}

func TestJournalReportsAsTables(t *testing.T) {
	a, out := testApp()
	if err := a.printVerified(&bus.VerifyReport{First: 1, Last: 1042, Records: 1042, Bytes: 312_000,
		Epochs: 3}); err != nil {
		t.Error(err)
	}
	problems := []bus.Problem{{Seq: 5, Message: "records 5 to 5 are missing"}}
	report := &bus.VerifyReport{First: 1, Last: 9, Records: 8, Bytes: 900, Epochs: 1, Found: 1, Problems: problems}
	if err := a.printVerified(report); exitCode(err) != exitDamaged {
		t.Errorf("a damaged journal ends with %v", err)
	}
	if err := a.printSize(&bus.SizeReport{
		Journal: bus.Share{Name: "journal", Count: 1042, Bytes: 312_000}, JournalDisk: 400_000,
		ManifestsDisk: 5000, Manifests: 4,
		ByKind: []bus.Share{{Name: "pod", Count: 1000, Bytes: 300_000}, {Name: "runtime", Count: 42, Bytes: 12_000}},
		Pods:   []bus.Share{{Name: "u1", Count: 500, Bytes: 150_000}, {Name: "u2", Count: 1, Bytes: 10}},
	}, map[string]string{"u1": "web"}); err != nil {
		t.Error(err)
	}
	golden(t, "journal", out.String())
}

func TestTablesCanBePrintedAsJSONAndYAML(t *testing.T) {
	a, out := testApp()
	must.OK(t, printValue(a.out, formatJSON, listOf(&corev1.PodList{})))
	var list map[string]any
	if err := json.Unmarshal(out.Bytes(), &list); err != nil || list["kind"] != "List" || list["items"] == nil {
		t.Errorf("an empty list is %v, %v", list, err)
	}
	out.Reset()
	if err := printValue(a.out, formatYAML, map[string]int{"a": 1}); err != nil || out.String() != "a: 1\n" {
		t.Errorf("yaml is %q, %v", out, err)
	}
}
