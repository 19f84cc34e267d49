package client

import (
	"bytes"
	"io"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/journalet/journalet/test/must"
)

// following is a watch of pods whose events a test writes.
type following struct {
	t     *testing.T
	began time.Time
	to    *io.PipeWriter
	watch watch.Interface
}

func follow(t *testing.T, l *lists[corev1.Pod]) *following {
	t.Helper()
	from, to := io.Pipe()
	return &following{t: t, began: time.Now(), to: to, watch: l.follow(from, asProtobuf, false, func() {})}
}

// send sends an event of a pod, and receives it.
func (f *following) send(kind watch.EventType, p corev1.Pod) {
	f.t.Helper()
	_, err := f.to.Write(event(f.t, asProtobuf, kind, &p, "Pod"))
	must.OK(f.t, err)
	if e := <-f.watch.ResultChan(); e.Type != kind {
		f.t.Errorf("received %v", e)
	}
}

// ends checks that the watch ends after so long with an error that has a Reflector list.
func (f *following) ends(after time.Duration) {
	f.t.Helper()
	e := <-f.watch.ResultChan()
	took := time.Since(f.began)
	if e.Type != watch.Error || !apierrors.IsResourceExpired(apierrors.FromObject(e.Object)) || took != after {
		f.t.Errorf("received %s %v after %s, not the end of the watch after %s", e.Type, e.Object, took, after)
	}
	f.watch.Stop()
}

// stays checks that nothing ends the watch.
func (f *following) stays() {
	f.t.Helper()
	select {
	case e := <-f.watch.ResultChan():
		f.t.Errorf("received %v after %s", e, time.Since(f.began))
	case <-time.After(24 * time.Hour):
	}
	f.watch.Stop()
}

func TestAWatchEndsAfterWhatCannotBeRead(t *testing.T) {
	good, odd := testPod("a", 0), testPod("odd", 0)
	odd.Spec.Containers[0].Image = invalid
	synctest.Test(t, func(t *testing.T) {
		l := newLists(func(LeftOut) {}, Pods, false)
		list := func(pods ...corev1.Pod) {
			t.Helper()
			body := encode(t, asProtobuf, &corev1.PodList{Items: pods}, "PodList")
			l.restart()
			_, err := l.decode(bytes.NewReader(body), asProtobuf)
			must.OK(t, err)
		}
		list(good)
		f := follow(t, l)
		f.send(watch.Modified, good)
		f.stays()

		// An event. More of them change nothing.
		f = follow(t, l)
		f.send(watch.Modified, odd)
		<-time.After(20 * time.Second)
		f.send(watch.Modified, odd)
		f.ends(listAgainFirst)
		list(good)
		follow(t, l).stays()

		// A watch that ends earlier, for whatever reason, moves the list no further away.
		f = follow(t, l)
		f.send(watch.Modified, odd)
		<-time.After(20 * time.Second)
		f.watch.Stop()
		follow(t, l).ends(listAgainFirst - 20*time.Second)

		// Lists, too, ever more seldom, until one can be read.
		for _, pause := range []time.Duration{30, 60, 120, 240, 300, 300} {
			list(good, odd)
			follow(t, l).ends(pause * time.Second)
		}
		list(good)
		f = follow(t, l)
		f.send(watch.Modified, odd)
		f.ends(listAgainFirst)
	})
}

// A watch that begins with a list ends as well.
func TestAWatchThatListsEndsAfterWhatCannotBeRead(t *testing.T) {
	odd, mark := testPod("odd", 0), corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "8",
		Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}
	odd.Spec.Containers[0].Image = invalid
	synctest.Test(t, func(t *testing.T) {
		from, to := io.Pipe()
		f := &following{t: t, began: time.Now(), to: to}
		f.watch = newLists(func(LeftOut) {}, Pods, false).follow(from, asProtobuf, true, func() { t.Error("it was late") })
		f.send(watch.Added, odd)
		f.send(watch.Bookmark, mark)
		f.ends(listAgainFirst)
	})
}

// A Reflector stops a watch while it reads an event: nothing of it may be written then (for the race detector).
func TestAWatchMayBeStoppedWhileItReads(t *testing.T) {
	odd := testPod("odd", 0)
	odd.Spec.Containers[0].Image = invalid
	f := follow(t, newLists(func(LeftOut) {}, Pods, false))
	_, err := f.to.Write(event(t, asProtobuf, watch.Modified, &odd, "Pod"))
	must.OK(t, err)
	f.watch.Stop()
}
