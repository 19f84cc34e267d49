package oom

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/euank/go-kmsg-parser/kmsgparser"

	"github.com/journalet/journalet/messages"
	"github.com/journalet/journalet/messages/journaletv1"
	"github.com/journalet/journalet/test/must"
)

const podPath = "/kubepods/burstable/pod1"

// kernelLog is the log of a kernel in memory.
type kernelLog struct {
	lines chan kmsgparser.Message
	ended bool
}

func (l *kernelLog) SeekEnd() error                   { l.ended = true; return nil }
func (l *kernelLog) Parse() <-chan kmsgparser.Message { return l.lines }
func (l *kernelLog) SetLogger(kmsgparser.Logger)      {}
func (l *kernelLog) Close() error                     { return nil }

// world is a driver with a kernel's log and a pod with one container.
type world struct {
	log   *kernelLog
	kills []*journaletv1.OomKillObserved
	about []messages.Ref
	now   time.Time
	// shown is how many requests pass until the runtime shows the container.
	shown int
}

// play runs a driver on lines of the kernel.
func (w *world) play(t *testing.T, lines ...kmsgparser.Message) {
	t.Helper()
	w.log = &kernelLog{lines: make(chan kmsgparser.Message, len(lines))}
	for _, l := range lines {
		w.log.lines <- l
	}
	close(w.log.lines)
	over := make(chan time.Time)
	ctx, stop := context.WithCancel(t.Context())
	now := make(chan time.Time)
	close(now)
	d := New(Options{
		Open: func() (kmsgparser.Parser, error) { return w.log, nil },
		Top:  func() string { return "/kubepods" },
		Find: w.find,
		Now:  func() time.Time { return w.now },
		After: func(d time.Duration) <-chan time.Time {
			if d == retry {
				stop()
				return over
			}
			return now
		},
		Sink: func(_ context.Context, about messages.Ref, e *journaletv1.Event) error {
			w.kills, w.about = append(w.kills, e.GetOomKillObserved()), append(w.about, about)
			return nil
		},
	})
	must.OK(t, d.Run(ctx))
	if !w.log.ended {
		t.Error("the driver reads what was logged before its start")
	}
}

func (w *world) find(cgroup string) (Place, bool) {
	w.shown--
	switch {
	case Below(cgroup, podPath+"/"+id) && w.shown < 0:
		return Place{UID: "1", Container: "web", ID: id, Path: podPath + "/" + id, PodPath: podPath}, true
	case Below(cgroup, podPath):
		return Place{UID: "1", Path: podPath, PodPath: podPath}, true
	}
	return Place{}, false
}

func kernel(text string) kmsgparser.Message { return kmsgparser.Message{Priority: 6, Message: text} }

func TestKillIsRecordedWithItsContainerAndScope(t *testing.T) {
	lineOf := func(limit, cgroup string) string {
		return fmt.Sprintf("oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,mems_allowed=0,oom_memcg=%s,"+
			"task_memcg=%s,task=python3,pid=7,uid=0", limit, cgroup)
	}
	container := podPath + "/" + id
	for name, c := range map[string]struct {
		line, want string
		shown      int
	}{
		"container":                    {line: atLimit, want: "pod/1 CONTAINER web"},
		"container that just started":  {line: atLimit, want: "pod/1 CONTAINER web", shown: 3},
		"container that is never seen": {line: atLimit, want: "pod/1 CONTAINER ", shown: 99},
		"cgroup in a container":        {line: lineOf(container+"/x", container+"/x/y"), want: "pod/1 CONTAINER web"},
		"pod":                          {line: lineOf(podPath, container), want: "pod/1 POD web"},
		"all pods":                     {line: lineOf("/kubepods", container), want: "pod/1 PODS web"},
		"another pod's name below a cgroup": {
			line: lineOf("/kubepods/burstable/pod2/c/x,task_memcg="+container, "/kubepods/burstable/pod2/c/x"),
			want: ""},
		"cgroup named as another pod's": {
			line: lineOf(container+"/x,task_memcg=/kubepods/burstable/pod2/c", container+"/x"),
			want: "pod/1 CONTAINER web"},
		"machine, none of ours": {line: global, want: "node/0 NODE "},
		"machine, a container": {
			line: strings.Replace(global, "/system.slice/x.service", container, 1), want: "pod/1 NODE web"},
		"service": {line: lineOf("/system.slice/x.service", "/system.slice/x.service"), want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := &world{shown: c.shown}
			w.play(t, kernel("something else"), kernel(c.line))
			var got []string
			for i, k := range w.kills {
				scope := strings.TrimPrefix(k.GetScope().String(), "OOM_SCOPE_")
				got = append(got, fmt.Sprintf("%s %s %s", w.about[i], scope, k.GetContainer()))
			}
			if text := strings.Join(got, "; "); text != c.want {
				t.Errorf("recorded %q, want %q", text, c.want)
			}
		})
	}
}

func TestWhatAProcessLogsIsNoKill(t *testing.T) {
	w := &world{}
	w.play(t, kmsgparser.Message{Priority: 12, Message: atLimit})
	if len(w.kills) != 0 {
		t.Errorf("recorded %v of a line that no kernel wrote", w.kills)
	}
}

func TestKillsOfOneContainerAreBoundedAndCounted(t *testing.T) {
	w := &world{}
	var lines []kmsgparser.Message
	for range 10000 {
		lines = append(lines, kernel(atLimit))
	}
	lines = append(lines, kernel(global)) // another one is reported all the same
	w.play(t, lines...)
	if len(w.kills) != burst+1 {
		t.Errorf("recorded %d kills of 10,000, want %d and that of the machine", len(w.kills), burst)
	}
	b := newBounds()
	for range burst + 3 {
		b.allow("c", w.now)
	}
	if omitted, ok := b.allow("c", w.now.Add(every)); !ok || omitted != 3 {
		t.Errorf("the next kill has %d omitted ones (%v), want 3", omitted, ok)
	}
}

func TestContainersThatAreCountedAreBounded(t *testing.T) {
	b := newBounds()
	for i := range 5 * maxCounted {
		b.allow(fmt.Sprint(i), time.Time{})
	}
	if len(b.by) > maxCounted {
		t.Errorf("%d containers are counted, want at most %d", len(b.by), maxCounted)
	}
}

func TestWithoutThePermissionTheDriverEnds(t *testing.T) {
	opened := 0
	d := New(Options{Open: func() (kmsgparser.Parser, error) {
		opened++
		return nil, &os.PathError{Op: "open", Path: "/dev/kmsg", Err: os.ErrPermission}
	}})
	must.OK(t, d.Run(t.Context()))
	if opened != 1 {
		t.Errorf("the log was opened %d times, want once", opened)
	}
}

func TestLogThatFailsIsOpenedAgain(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	opened, now := 0, make(chan time.Time)
	close(now)
	d := New(Options{
		After: func(time.Duration) <-chan time.Time { return now },
		Open: func() (kmsgparser.Parser, error) {
			if opened++; opened == 3 {
				stop()
			}
			return nil, errors.New("no")
		},
	})
	must.OK(t, d.Run(ctx))
	if opened != 3 {
		t.Errorf("the log was opened %d times, want 3", opened)
	}
}
