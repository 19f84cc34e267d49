package gate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

// rig is a driver that reads when the test calls it.
type rig struct {
	*testing.T
	d        *Driver
	root     string
	reported []string
	fail     bool
	objects  map[string]*corev1.Pod
}

func newRig(t *testing.T) *rig {
	r := &rig{T: t, root: t.TempDir(), objects: map[string]*corev1.Pod{}}
	object := func(uid string) *corev1.Pod { return r.objects[uid] }
	sink := func(_ context.Context, g *journaletv1.ReadinessGatesRead) error {
		if r.fail {
			return errors.New("the journal is closed")
		}
		text := g.GetUid() + ":"
		for _, c := range g.GetConditions() {
			text += " " + c.GetType() + "=" + c.GetStatus()
		}
		r.reported = append(r.reported, text)
		return nil
	}
	r.d = New(Options{RootDir: r.root, Object: object, Sink: sink})
	return r
}

func (r *rig) set(uid string, types ...string) {
	r.stored(uid, messages.NewEvent(&journaletv1.ReadinessGatesSet{Types: types}))
}

func (r *rig) stored(uid string, decision *journaletv1.Event) {
	r.d.Stored(&journaletv1.Record{Actor: messages.Pod(uid).Proto(),
		Body: &journaletv1.Record_Step{Step: &journaletv1.Step{
			Decisions: []*journaletv1.Event{decision},
		}}})
}

func (r *rig) write(uid, text string) {
	r.Helper()
	dir := filepath.Join(r.root, "pods", uid)
	if err := errors.Join(os.MkdirAll(dir, 0o750),
		os.WriteFile(filepath.Join(dir, FileName), []byte(text), 0o600)); err != nil {
		r.Fatal(err)
	}
}

// reports reads once and wants these reports.
func (r *rig) reports(want ...string) {
	r.Helper()
	r.reported = nil
	r.d.ReadAll(r.Context())
	if fmt.Sprint(r.reported) != fmt.Sprint(want) {
		r.Errorf("reported %q, want %q", r.reported, want)
	}
}

func TestGatesReportOnlyChanges(t *testing.T) {
	r := newRig(t)
	r.write("u", "a/b: True\n")
	if r.d.ReadAll(t.Context()) {
		t.Error("a file is read although no pod has gates")
	}
	r.set("u", "a/b", "c")
	r.reports("u: a/b=True")
	r.reports()
	r.write("u", `{"a/b": "True", "c": "Unknown", "other": false}`)
	r.reports("u: a/b=True c=Unknown")
	// An invalid file changes nothing.
	for _, bad := range []string{"a/b: maybe\n", "- a/b\n", "a/b: True\na/b: False\n", "a: [",
		strings.Repeat("#", maxFileBytes+1)} {
		r.write("u", bad)
		r.reports()
	}
	r.write("u", "a/b: false\n")
	r.fail = true
	r.reports()
	r.fail = false
	r.reports("u: a/b=False")
	must.OK(t, os.Remove(filepath.Join(r.root, "pods", "u", FileName)))
	r.reports("u:")
	r.set("u")
	r.write("u", "a/b: True\n")
	r.reports()
}

func TestSeededGatesAreNotReportedAgain(t *testing.T) {
	r := newRig(t)
	r.write("u", "a: True\n")
	r.write("v", "a: True\n")
	conditions := []*journaletv1.ReadinessGateCondition{{Type: "a", Status: "False"}}
	r.d.Seed("u", []string{"a"}, false, conditions)
	r.d.Seed("v", []string{"a"}, false, conditions)
	r.d.SeedPending(&journaletv1.ReadinessGatesRead{Uid: "v",
		Conditions: []*journaletv1.ReadinessGateCondition{{Type: "a", Status: "True"}}})
	r.d.Seed("w", nil, false, conditions) // it has terminated
	r.reports("u: a=True")
}

// A pod without gates ignores reports. When it has gates again, its conditions may be old.
func TestPodWithGatesAgainIsAlwaysReported(t *testing.T) {
	r := newRig(t)
	r.write("u", "a: True\n")
	r.set("u", "a")
	r.reports("u: a=True")
	r.set("u")
	must.OK(t, os.Remove(filepath.Join(r.root, "pods", "u", FileName)))
	r.reports()
	r.set("u", "a")
	r.reports("u:")
	r.reports()
	// Its next incarnation has no conditions.
	r.set("u")
	r.stored("u", messages.NewEvent(&journaletv1.PodFinished{Uid: "u"}))
	r.set("u", "a")
	r.reports()
	// The agent was restarted meanwhile.
	r.d.Seed("v", nil, false, []*journaletv1.ReadinessGateCondition{{Type: "a", Status: "True"}})
	r.set("v", "a")
	r.reports("v:")
}

func TestLinkOutOfPodDirectoryIsNotFollowed(t *testing.T) {
	r := newRig(t)
	r.set("u", "a")
	r.set("v", "a")
	r.write("elsewhere", "a: True\n")
	if err := errors.Join(os.MkdirAll(filepath.Join(r.root, "pods", "u"), 0o750),
		os.Symlink("../../elsewhere/"+FileName, filepath.Join(r.root, "pods", "u", FileName)),
		os.Symlink("elsewhere", filepath.Join(r.root, "pods", "v"))); err != nil {
		t.Fatal(err)
	}
	r.reports()
}

func TestUnreadableFileIsLoggedOnce(t *testing.T) {
	var log strings.Builder
	r := newRig(t)
	r.d.opts.Log = slog.New(slog.NewTextHandler(&log, nil))
	r.set("u", "a")
	r.write("u", "{{{")
	r.reports()
	r.reports()
	if got := log.String(); strings.Count(got, "\n") != 1 ||
		!strings.Contains(got, "file="+filepath.Join(r.root, "pods", "u", FileName)+" ") {
		t.Errorf("the log is\n%s", got)
	}
}

func TestFileThatExpandsToMoreThanItsBoundIsNotRead(t *testing.T) {
	_, err := parse([]byte("a: &a \"" + strings.Repeat("x", 32<<10) + "\"\nb: [" + strings.Repeat("*a, ", 1000) + "]"))
	if err == nil || !strings.Contains(err.Error(), "aliases") {
		t.Error(err)
	}
}

// setAPI is set for a pod of the API server.
func (r *rig) setAPI(uid string, types ...string) {
	r.stored(uid, messages.NewEvent(&journaletv1.ReadinessGatesSet{Types: types, Api: true}))
}

// object has the watch show a pod with these conditions, as "type=status".
func (r *rig) object(uid string, conditions ...string) {
	p := new(corev1.Pod)
	for _, c := range conditions {
		kind, status, _ := strings.Cut(c, "=")
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
			Type: corev1.PodConditionType(kind), Status: corev1.ConditionStatus(status),
		})
	}
	r.objects[uid] = p
	r.d.Changed(uid)
}

func TestConditionsOfAnAPIPodAreThoseOfItsObject(t *testing.T) {
	r := newRig(t)
	r.write("u", "a: True\n") // not read
	r.d.Changed("u")          // no gates yet
	r.setAPI("u", "a", "b")
	r.reports()
	r.object("u", "a=False", "Ready=True")
	r.reports("u: a=False")
	r.object("u", "a=False", "Ready=False") // our own patch comes back
	r.reports()
	r.object("u", "b=Unknown", "a=x")
	r.fail = true
	if !r.d.ReadAll(t.Context()) {
		t.Error("a change that could not be reported is not to be reported again")
	}
	r.fail = false
	r.reports("u: a=x b=Unknown")
	if r.d.ReadAll(t.Context()) {
		t.Error("an object is read by the period")
	}
	r.objects["u"] = new(corev1.Pod)
	r.reports() // a pod whose object has not changed costs nothing
	r.object("u")
	r.reports("u:")
}

// After a restart without the API server its pods keep the conditions that they had.
func TestConditionsStayUntilTheObjectIsKnown(t *testing.T) {
	r := newRig(t)
	r.d.Seed("u", []string{"a"}, true, []*journaletv1.ReadinessGateCondition{{Type: "a", Status: "True"}})
	r.reports()
	r.object("u", "a=True")
	r.reports()
	r.object("u")
	r.reports("u:")
}

func TestChangeOfAnObjectIsReadAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, reported := time.Now(), make(chan string, 10)
		object := atomic.Pointer[corev1.Pod]{}
		d := New(Options{
			Object: func(string) *corev1.Pod { return object.Load() },
			Sink: func(_ context.Context, g *journaletv1.ReadinessGatesRead) error {
				reported <- g.GetConditions()[0].GetStatus()
				return nil
			},
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); _ = d.Run(ctx) }()
		d.Seed("u", []string{"a"}, true, nil)
		synctest.Wait()
		for _, status := range []corev1.ConditionStatus{"True", "False"} {
			object.Store(&corev1.Pod{Status: corev1.PodStatus{
				Conditions: []corev1.PodCondition{{Type: "a", Status: status}},
			}})
			d.Changed("u")
			if got := <-reported; got != string(status) {
				t.Errorf("reported %s, want %s", got, status)
			}
		}
		if took := time.Since(begun); took != 0 {
			t.Errorf("took %s", took)
		}
		cancel()
		<-done
	})
}
