package objectcache

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/journalet/journalet/runtime/bounded"
	"github.com/journalet/journalet/runtime/cluster/client"
	"github.com/journalet/journalet/test/must"
)

// list is a list of the external names of Services, and what it leaves out.
type list struct {
	*List[corev1.Service, string]
	store *store[corev1.Service, string]
	out   []client.LeftOut
	saved int
}

func (l *list) SaveList(string, []byte) { l.saved++ }

func (l *list) LoadList(string) ([]byte, bool) { return nil, false }

func newList(t *testing.T) *list {
	t.Helper()
	l := &list{}
	c, err := client.New(client.Options{
		Config: &rest.Config{Host: "http://localhost"}, LeftOut: func(o client.LeftOut) { l.out = append(l.out, o) },
	})
	must.OK(t, err)
	l.List = New(c, client.Services, Options[corev1.Service, string]{
		Value: func(s *corev1.Service) (string, bool) { return s.Spec.ExternalName, s.Spec.ExternalName != "" },
		Size:  func(v string) int { return len(v) }, Kept: l, Away: func() bool { return false },
	})
	l.store = (*store[corev1.Service, string])(l.List)
	return l
}

func service(namespace, name, value string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.ServiceSpec{ExternalName: value},
	}
}

// each calls take with Services of a namespace, whose values have so many bytes.
func each(namespace string, from, to, bytes int, take func(*corev1.Service)) {
	for i := from; i < to; i++ {
		take(service(namespace, fmt.Sprint("s", i), strings.Repeat("x", bytes)))
	}
}

// has returns how many values a namespace has.
func (l *list) has(t *testing.T, namespace string) int {
	t.Helper()
	all, ok := l.In(namespace, 1<<20)
	if !ok {
		t.Fatalf("namespace %s has more than a million values", namespace)
	}
	return len(all)
}

func TestOneNamespaceTakesNoRoomOfAnother(t *testing.T) {
	for what, bytes := range map[string]int{"many": 1, "large": 1 << 20} {
		l := newList(t)
		fits := maxBytes / (valueBytes + bytes)
		add := func(s *corev1.Service) { must.OK(t, l.store.Add(s)) }
		each("few", 0, 10, 1, add)
		each("largest", 0, fits+10, bytes, add)
		each("few", 10, 20, 1, add)
		if few, largest := l.has(t, "few"), l.has(t, "largest"); few != 20 || largest != 0 {
			t.Errorf("%s: %d of few, %d of the largest", what, few, largest)
		}
		if len(l.out) != 1 || l.out[0].Namespace != "largest" || l.out[0].Resource != "services" {
			t.Errorf("%s: left out %v", what, l.out)
		}
		must.OK(t, l.store.Update(service("few", "s1", "longer")))
		must.OK(t, l.store.Update(service("few", "s2", "")))
		l.now.remove("few", "s0")
		l.now.remove("few", "none")
		sum := 0
		for name, v := range l.now.all["few"].values {
			sum += l.now.bytesOf(name, v)
		}
		if l.now.bytes != sum || l.now.all["few"].bytes != sum {
			t.Errorf("%s: counts %d bytes and %d of few, has %d", what, l.now.bytes, l.now.all["few"].bytes, sum)
		}
	}
}

// Who cannot use all values of a namespace gets no copy of them.
func TestANamespaceWithMoreValuesThanWantedIsNotCopied(t *testing.T) {
	l := newList(t)
	each("ns", 0, 10, 1, func(s *corev1.Service) { must.OK(t, l.store.Add(s)) })
	if all, ok := l.In("ns", 9); ok || all != nil {
		t.Errorf("%d values, where 9 are wanted at most", len(all))
	}
	if all, ok := l.In("ns", 10); !ok || len(all) != 10 {
		t.Errorf("%d values, %v", len(all), ok)
	}
}

// What is beyond the room of a resource without namespaces is left out by itself.
func TestWithoutNamespacesOneValueIsLeftOut(t *testing.T) {
	l := newList(t)
	each("", 0, 25, 1<<20, func(s *corev1.Service) { must.OK(t, l.store.Add(s)) })
	if n := l.has(t, ""); n != 23 || len(l.out) != 2 || l.out[0].Name != "s23" {
		t.Errorf("%d values, left out %v", n, l.out)
	}
}

func TestAListCountsOnceItIsWhole(t *testing.T) {
	l := newList(t)
	take := l.begin()
	each("ns", 0, 10, 1, take)
	must.OK(t, l.store.Replace(nil, "1"))
	broken := l.begin()
	each("ns", 100, 105, 1, broken)
	again := l.begin()
	each("ns", 0, 3, 1, again)
	each("ns", 200, 205, 1, broken) // it is read on for a moment
	if n := l.has(t, "ns"); n != 10 {
		t.Errorf("%d values while a list is read, want those of the one before", n)
	}
	must.OK(t, l.store.Replace(nil, "2"))
	if n := l.has(t, "ns"); n != 3 {
		t.Errorf("%d values, want the 3 of the last list", n)
	}
}

func TestAListThatIsTooLargeIsKeptWithoutItsLargestNamespace(t *testing.T) {
	l := newList(t)
	add := func(s *corev1.Service) { must.OK(t, l.store.Add(s)) }
	each("few", 0, 10, 1000, add)
	each("many", 0, maxListBytes/1000, 1000, add)
	data := l.fitting()
	kept := map[string]map[string]string{}
	must.OK(t, bounded.JSON(data, maxListBytes, &kept))
	if len(kept["few"]) != 10 || len(kept) != 1 || l.has(t, "many") == 0 {
		t.Errorf("kept %d bytes of %d namespaces, %d of few", len(data), len(kept), len(kept["few"]))
	}
}

// Labels of Services change all the time somewhere in a cluster.
func TestWhatChangesNoValueIsNotKeptAgain(t *testing.T) {
	l := newList(t)
	must.OK(t, l.store.Add(service("ns", "a", "v")))
	if !l.saving {
		t.Error("a new value is not kept")
	}
	l.saving = false
	s := service("ns", "a", "v")
	s.Labels = map[string]string{"version": "2"}
	must.OK(t, l.store.Update(s))
	must.OK(t, l.store.Update(service("ns", "none", "")))
	if l.saving {
		t.Error("a label has the list kept again")
	}
	must.OK(t, l.store.Update(service("ns", "a", "w")))
	if !l.saving {
		t.Error("another value is not kept")
	}
}

// A node that stops soon after a change has the list when it starts without the API server.
func TestAChangeJustBeforeTheEndIsKept(t *testing.T) {
	l := newList(t)
	ended, end := context.WithCancel(t.Context())
	end()
	must.OK(t, l.store.Add(service("ns", "a", "v")))
	for range 2 {
		if err := l.Run(ended); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if l.saved != 1 {
			t.Fatalf("kept %d times, want once", l.saved)
		}
	}
}
