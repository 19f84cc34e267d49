package gate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

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
}

func newRig(t *testing.T) *rig {
	r := &rig{T: t, root: t.TempDir()}
	r.d = New(Options{RootDir: r.root, Sink: func(_ context.Context, g *journaletv1.ReadinessGatesRead) error {
		if r.fail {
			return errors.New("the journal is closed")
		}
		text := g.GetUid() + ":"
		for _, c := range g.GetConditions() {
			text += " " + c.GetType() + "=" + c.GetStatus()
		}
		r.reported = append(r.reported, text)
		return nil
	}})
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
	r.d.Seed("u", []string{"a"}, conditions)
	r.d.Seed("v", []string{"a"}, conditions)
	r.d.SeedPending(&journaletv1.ReadinessGatesRead{Uid: "v",
		Conditions: []*journaletv1.ReadinessGateCondition{{Type: "a", Status: "True"}}})
	r.d.Seed("w", nil, conditions) // it has terminated
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
	r.d.Seed("v", nil, []*journaletv1.ReadinessGateCondition{{Type: "a", Status: "True"}})
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
