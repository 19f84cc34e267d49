package logs_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/journalet/journalet/runtime/pod/logs"
	"github.com/journalet/journalet/test/must"
)

// ways are the two ways to learn of a change.
var ways = map[string]logs.Options{"notified": {}, "polled": {Poll: true}}

func TestFollowerPrintsLinesAsTheyAreWrittenUntilTheContainerEnds(t *testing.T) {
	for way, o := range ways {
		t.Run(way, func(t *testing.T) {
			w := newWorld(t)
			w.write("0.log", w.lines("one", "two"))
			q := all
			q.Tail = number(int64(1))
			f := w.follow(q, o)
			f.until(t, "two\n")
			w.append("0.log", w.lines("three"))
			f.until(t, "three\n")
			line := w.lines("and then four")
			w.append("0.log", line[:10])
			w.append("0.log", line[10:40])
			w.append("0.log", line[40:])
			f.until(t, "four\n")
			w.append("0.log", w.lines("five"))
			f.end()
			<-f.done
			if f.err != nil || f.String() != "two\nthree\nand then four\nfive\n" || f.report.Err() != nil {
				t.Errorf("printed %q; %v, left out: %v", f.String(), f.err, f.report.Err())
			}
		})
	}
}

// A rotated file that still grows for a moment is read to its end, and no line of any file is lost or printed twice.
func TestFollowerSurvivesRotation(t *testing.T) {
	for way, o := range ways {
		t.Run(way, func(t *testing.T) {
			w := newWorld(t)
			live := w.open("0.log")
			f := w.follow(all, o)
			var want strings.Builder
			say := func(to *os.File) {
				line := fmt.Sprintf("line at %s", w.at)
				w.say(to, w.lines(line))
				want.WriteString(line + "\n")
			}
			for i := range 5 {
				say(live)
				must.OK(t, os.Rename(w.path("0.log"), w.path(fmt.Sprintf("0.log.20261121-10000%d", i))))
				say(live) // the runtime has not opened the next file
				next := w.open("0.log")
				say(live) // nor written all that it had buffered
				say(next)
				must.OK(t, live.Close())
				live = next
				f.until(t, want.String())
			}
			must.OK(t, live.Close())
			f.end()
			<-f.done
			if f.err != nil || f.report.Err() != nil || f.String() != want.String() {
				t.Errorf("printed %q, want %q; %v, left out: %v", f.String(), want.String(), f.err, f.report.Err())
			}
		})
	}
}

// The runtime writes the begin of a line to the rotated file long after it has written the line's end to the next one.
func TestFollowerReadsARotatedFileUntilItIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		old := w.open("0.log")
		f := w.follow(all, logs.Options{Poll: true})
		w.say(old, w.lines("one"))
		f.until(t, "one\n")
		begin, end := w.record("P", "out", "tw"), w.record("F", "out", "o")
		must.OK(t, os.Rename(w.path("0.log"), w.path("0.log.20261121-100000")))
		w.write("0.log", end)
		pass(time.Second)
		w.say(old, begin)
		must.OK(t, old.Close())
		f.until(t, "o\n")
		if f.String() != "one\ntwo\n" {
			t.Errorf("printed %q", f.String())
		}
	})
}

func TestFollowerOfAnEndedContainerReadsItsLogUntilItIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		log := w.open("0.log")
		f := w.follow(all, logs.Options{Poll: true})
		w.say(log, w.lines("one"))
		f.until(t, "one\n")
		f.end()
		pass(1500 * time.Millisecond) // the follower learns of the end
		w.say(log, w.lines("last words"))
		must.OK(t, log.Close())
		<-f.done
		if f.err != nil || f.String() != "one\nlast words\n" {
			t.Errorf("printed %q, %v", f.String(), f.err)
		}
	})
}

// Another process than the runtime may have the files open for writing, for as long as it likes.
func TestFollowerDoesNotWaitForeverForAFileToBeClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		begun := time.Now()
		defer w.open("0.log").Close()
		f := w.follow(all, logs.Options{Poll: true})
		must.OK(t, os.Rename(w.path("0.log"), w.path("0.log.20261121-100000")))
		defer w.open("0.log").Close()
		w.append("0.log", w.lines("one"))
		f.until(t, "one\n")
		f.end()
		<-f.done
		// Twice 2 s for the files, and up to a second until the end is noticed.
		if most := begun.Add(6 * time.Second); f.err != nil || time.Now().After(most) {
			t.Errorf("the follower ended after %s, %v", time.Since(begun), f.err)
		}
	})
}

func TestFollowerThatBlocksMissesNoRotation(t *testing.T) {
	w := newWorld(t)
	w.write("0.log", w.lines("first"))
	// The client takes nothing after the first line until it is released.
	s, blocked, release := newScreen(), make(chan struct{}, 1), make(chan struct{})
	slow := writerFunc(func(b []byte) (int, error) {
		if len(b) == 0 {
			return 0, nil // the log was opened
		}
		select {
		case blocked <- struct{}{}:
		default:
		}
		<-release
		return s.Write(b)
	})
	ended, end := context.WithCancel(t.Context())
	log := logs.Log{Path: w.path("0.log"), Ended: func(context.Context) bool { return ended.Err() != nil }}
	q := all
	q.Follow = true
	done := make(chan error)
	go func() {
		_, err := logs.New(logs.Options{Dir: w.top, Poll: true}).Read(t.Context(), log, q, slow)
		done <- err
	}()
	<-blocked
	want := "first\n"
	for i := range 4 {
		rotated := fmt.Sprintf("0.log.20261121-10000%d", i)
		must.OK(t, os.Rename(w.path("0.log"), w.path(rotated)))
		w.write("0.log", w.lines(fmt.Sprint(i)))
		want += fmt.Sprintln(i)
		waitOpen(t, w.path("0.log"))
		must.OK(t, os.Remove(w.path(rotated))) // as one file too many
	}
	close(release)
	s.until(t, want)
	end()
	must.OK(t, <-done)
}

// waitOpen waits until this process has a file open.
func waitOpen(t *testing.T, path string) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); runtime.Gosched() {
		entries, err := os.ReadDir("/proc/self/fd")
		must.OK(t, err)
		for _, e := range entries {
			if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil && to == path {
				return
			}
		}
	}
	t.Fatalf("%s was not opened", path)
}

func TestFollowerOfAnEndedContainerEnds(t *testing.T) {
	w := newWorld(t)
	w.write("0.log", w.lines("last words"))
	f := w.follow(all, logs.Options{})
	f.end()
	<-f.done
	if f.err != nil || f.String() != "last words\n" {
		t.Errorf("%q, %v", f.String(), f.err)
	}
}

func TestFollowerWaitsForTheFirstFile(t *testing.T) {
	w := newWorld(t)
	f := w.follow(all, logs.Options{})
	w.write("0.log", w.lines("first words"))
	f.until(t, "first words\n")
}

func TestTruncatedLogIsReadFromItsBegin(t *testing.T) {
	w := newWorld(t)
	w.write("0.log", w.lines("one", "two", "three"))
	f := w.follow(all, logs.Options{})
	f.until(t, "three\n")
	w.write("0.log", w.lines("four"))
	f.until(t, "four\n")
	f.end()
	<-f.done
	if f.err != nil || f.report.Err() == nil {
		t.Errorf("%v, left out: %v", f.err, f.report.Err())
	}
}

// What a live file becomes that is no log is not followed.
func TestFollowerOpensNoPlantedFile(t *testing.T) {
	w := newWorld(t)
	w.write("0.log", w.lines("one"))
	w.write("secret", w.lines("secret"))
	f := w.follow(all, logs.Options{})
	f.until(t, "one\n")
	must.OK(t, os.Remove(w.path("0.log")))
	must.OK(t, os.Symlink("secret", w.path("0.log")))
	f.end()
	<-f.done
	if f.err != nil || f.String() != "one\n" {
		t.Errorf("%q, %v", f.String(), f.err)
	}
}

func TestFollowersLeaveNothingBehind(t *testing.T) {
	w := newWorld(t)
	w.write("0.log", w.lines("one"))
	r := logs.New(logs.Options{Dir: w.top})
	before, fds := runtime.NumGoroutine(), openFiles(t)
	ctx, stop := context.WithCancel(t.Context())
	const followers = 50
	done := make(chan error, followers)
	q := all
	q.Follow = true
	screens := make([]*screen, followers)
	for i := range followers {
		screens[i] = newScreen()
		go func() {
			_, err := r.Read(ctx, logs.Log{Path: w.path("0.log"), Ended: never}, q, screens[i])
			done <- err
		}()
	}
	for _, s := range screens {
		s.until(t, "one\n")
	}
	w.append("0.log", w.lines("two"))
	for _, s := range screens {
		s.until(t, "two\n")
	}
	stop()
	for range followers {
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}
	left := func() (int, int) { return runtime.NumGoroutine() - before, openFiles(t) - fds }
	deadline := time.Now().Add(time.Minute)
	for {
		goroutines, files := left()
		if goroutines <= 0 && files <= 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines and %d files are left", goroutines, files)
		}
		runtime.Gosched()
	}
}

// pass lets virtual time pass, and what is due happen.
func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func never(context.Context) bool { return false }

func openFiles(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	must.OK(t, err)
	return len(entries)
}
