package client

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	kruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/journalet/journalet/test/must"
)

// invalid is what a test has for a string that is not UTF-8.
const invalid = "\xff\xfe"

func testPod(name string, bytes int) corev1.Pod {
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "ns", UID: types.UID("uid-" + name), ResourceVersion: "7",
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m"}}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Args: []string{strings.Repeat("<", bytes)}}}},
	}
}

// encode encodes an object of the API in an encoding.
func encode(t *testing.T, as encoding, o kruntime.Object, kind string) []byte {
	t.Helper()
	o.GetObjectKind().SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	var out bytes.Buffer
	if as == asProtobuf {
		must.OK(t, protobuf.NewSerializer(Scheme(), Scheme()).Encode(o, &out))
	} else {
		must.OK(t, json.NewEncoder(&out).Encode(o))
	}
	return out.Bytes()
}

// event encodes an event of a watch.
func event(t *testing.T, as encoding, kind watch.EventType, o kruntime.Object, objectKind string) []byte {
	t.Helper()
	object := encode(t, as, o, objectKind)
	if as == asJSON {
		return fmt.Appendf(nil, "{\"type\":%q,\"object\":%s}\n", kind, object)
	}
	e := metav1.WatchEvent{Type: string(kind), Object: kruntime.RawExtension{Raw: object}}
	data, err := e.Marshal()
	must.OK(t, err)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), data...)
}

var contentTypes = map[encoding]string{asJSON: "application/json", asProtobuf: DefaultContentType}

// left collects what is left out.
type left struct {
	mu  sync.Mutex
	all []LeftOut
}

func (l *left) add(o LeftOut) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, o)
}

func TestAnItemBeyondItsBoundIsLeftOutByItself(t *testing.T) {
	large := map[encoding]int{asJSON: maxJSONItemBytes / 6, asProtobuf: maxItemBytes}
	for as, kind := range contentTypes {
		list := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: "9"}, Items: []corev1.Pod{
			testPod("a", 10), testPod("large", large[as]), testPod("b", 1<<20),
		}}
		if as == asProtobuf { // JSON has none
			list.Items = append(list.Items, testPod("odd", 0))
			list.Items[3].Spec.Containers[0].Image = invalid
		}
		var out left
		c := serve(t, Options{ContentType: kind, LeftOut: out.add}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			_, _ = w.Write(encode(t, as, list, "PodList"))
		})
		got, err := List(t.Context(), c, Pods, "", metav1.ListOptions{})
		must.OK(t, err)
		pods := got.(*corev1.PodList)
		if pods.ResourceVersion != "9" || len(pods.Items) != len(list.Items) || len(out.all) != len(list.Items)-2 {
			t.Fatalf("%s: version %q, %d items, left out %v", kind, pods.ResourceVersion, len(pods.Items), out.all)
		}
		for i, p := range pods.Items {
			readable := i == 0 || i == 2
			if p.Name != list.Items[i].Name || p.Namespace != "ns" || p.UID != list.Items[i].UID || p.ResourceVersion != "7" ||
				(Unreadable(&p) == "") != readable || (len(p.Spec.Containers) == 1) != readable || len(p.ManagedFields) > 0 {
				t.Errorf("%s: %s, unreadable %q", kind, p.Name, Unreadable(&p))
			}
		}
		if l := out.all[0]; l.Resource != "pods" || l.Name != "large" || l.UID != "uid-large" || l.Reason == "" {
			t.Errorf("%s: left out %v", kind, l)
		}
		// Other resources have no stubs.
		services := &corev1.ServiceList{Items: []corev1.Service{
			{ObjectMeta: list.Items[1].ObjectMeta}, {ObjectMeta: list.Items[0].ObjectMeta},
		}}
		services.Items[0].Annotations = map[string]string{"a": strings.Repeat("<", large[as])}
		c = serve(t, Options{ContentType: kind, Main: Limits{QPS: -1}}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			_, _ = w.Write(encode(t, as, services, "ServiceList"))
		})
		got, err = List(t.Context(), c, Services, "", metav1.ListOptions{})
		must.OK(t, err)
		if all := got.(*corev1.ServiceList).Items; len(all) != 1 || all[0].Name != "a" {
			t.Errorf("%s: %d Services", kind, len(all))
		}
	}
}

func TestAnEventBeyondItsBoundIsLeftOutByItself(t *testing.T) {
	for as, kind := range contentTypes {
		large := testPod("large", maxItemBytes)
		if as == asJSON {
			large = testPod("large", maxJSONItemBytes/6)
		}
		small, after := testPod("a", 1<<20), testPod("b", 0)
		mark := corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "8",
			Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}
		stream := slices.Concat(event(t, as, watch.Added, &small, "Pod"), event(t, as, watch.Added, &large, "Pod"),
			event(t, as, watch.Bookmark, &mark, "Pod"), event(t, as, watch.Modified, &large, "Pod"),
			event(t, as, watch.Deleted, &large, "Pod"), event(t, as, watch.Added, &after, "Pod"),
			event(t, as, watch.Error, &metav1.Status{Code: 410, Reason: metav1.StatusReasonExpired}, "Status"))
		var out left
		c := serve(t, Options{ContentType: kind, LeftOut: out.add}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind+";stream=watch")
			_, _ = w.Write(stream)
		})
		lw, err := ListWatch(c, Pods, "", "")
		must.OK(t, err)
		initial := true
		w, err := lw.WatchWithContext(t.Context(), metav1.ListOptions{SendInitialEvents: &initial})
		must.OK(t, err)
		var got []string
		for e := range w.ResultChan() {
			if s, ok := e.Object.(*metav1.Status); ok {
				got = append(got, fmt.Sprint(e.Type, " ", s.Code, s.Reason))
				continue
			}
			p := e.Object.(*corev1.Pod)
			got = append(got, fmt.Sprintf("%s %s %s %v", e.Type, p.UID, p.ResourceVersion, Unreadable(p) != ""))
		}
		w.Stop()
		want := []string{"ADDED uid-a 7 false", "ADDED uid-large 7 true", "BOOKMARK  8 false", "MODIFIED uid-large 7 true",
			"DELETED uid-large 7 true", "ADDED uid-b 7 false", "ERROR 410Expired"}
		if !slices.Equal(got, want) || len(out.all) != 3 {
			t.Errorf("%s: got %q, left out %v", kind, got, out.all)
		}
	}
}

// Who takes objects as they are read gets the objects of a list, and of a watch that sends a list, but none that cannot
// be read. The Reflector gets no object of the list.
func TestObjectsOfAListAreTakenAsTheyAreRead(t *testing.T) {
	for as, kind := range contentTypes {
		var all []corev1.Service
		for _, name := range []string{"a", "large", "b"} {
			all = append(all, corev1.Service{ObjectMeta: testPod(name, 0).ObjectMeta})
		}
		large := map[encoding]int{asJSON: maxJSONItemBytes / 6, asProtobuf: maxItemBytes}[as]
		all[1].Annotations = map[string]string{"a": strings.Repeat("<", large)}
		mark := corev1.Service{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "8",
			Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}
		var stream []byte
		for i := range all {
			stream = append(stream, event(t, as, watch.Added, &all[i], "Service")...)
		}
		stream = slices.Concat(stream, event(t, as, watch.Bookmark, &mark, "Service"),
			event(t, as, watch.Modified, &all[0], "Service"))
		var out left
		c := serve(t, Options{ContentType: kind, LeftOut: out.add}, func(w http.ResponseWriter, r *http.Request) {
			body := stream
			if w.Header().Set("Content-Type", kind); r.URL.Query().Get("watch") == "" {
				body = encode(t, as, &corev1.ServiceList{Items: all}, "ServiceList")
			}
			_, _ = w.Write(body)
		})
		var taken []string // of each list
		lw := ListWatchInto(c, Services, fields.Everything(), func() func(*corev1.Service) {
			taken = append(taken, "")
			now := len(taken) - 1
			return func(s *corev1.Service) { taken[now] += s.Name }
		})
		got, err := lw.ListWithContext(t.Context(), metav1.ListOptions{})
		must.OK(t, err)
		initial := true
		w, err := lw.WatchWithContext(t.Context(), metav1.ListOptions{SendInitialEvents: &initial})
		must.OK(t, err)
		var events []string
		for e := range w.ResultChan() {
			events = append(events, string(e.Type))
		}
		w.Stop()
		if n := len(got.(*corev1.ServiceList).Items); n != 0 || !slices.Equal(taken, []string{"ab", "ab"}) ||
			!slices.Equal(events, []string{"BOOKMARK", "MODIFIED"}) || len(out.all) != 2 {
			t.Errorf("%s: %d in the list, taken %q, events %q, left out %v", kind, n, taken, events, out.all)
		}
	}
}

func TestNoAnnotationMakesAnObjectUnreadable(t *testing.T) {
	for as, kind := range contentTypes {
		p := testPod("a", 0)
		p.Annotations = map[string]string{unreadable: "yes"}
		c := serve(t, Options{ContentType: kind, Main: Limits{QPS: -1}}, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			_, _ = w.Write(encode(t, as, &corev1.PodList{Items: []corev1.Pod{p}}, "PodList"))
		})
		got, err := List(t.Context(), c, Pods, "", metav1.ListOptions{})
		must.OK(t, err)
		if all := got.(*corev1.PodList).Items; len(all) != 1 || Unreadable(&all[0]) != "" {
			t.Errorf("%s: %v", kind, all)
		}
	}
}

func TestTheLargestNamespaceIsLeftOut(t *testing.T) {
	var c crowd
	for i := range maxListItems - 10 {
		c.enter("many", fmt.Sprint(i), maxListItems)
	}
	for i := range 20 {
		if room, out := c.enter("few", fmt.Sprint(i), maxListItems); !room || (out == "many") != (i == 10) {
			t.Fatalf("object %d: room %v, out %q", i, room, out)
		}
	}
	if room, _ := c.enter("many", "another", maxListItems); room || len(c.gone) != maxListItems-10 || c.total != 20 {
		t.Errorf("%d are gone, %d there", len(c.gone), c.total)
	}
}

func TestListsThatEndEarlyAreErrors(t *testing.T) {
	for as, kind := range contentTypes {
		data := encode(t, as, &corev1.PodList{Items: []corev1.Pod{testPod("a", 10), testPod("b", 10)}}, "PodList")
		whole := len(bytes.TrimSpace(data))
		for n := range whole {
			c := serve(t, Options{ContentType: kind, Main: Limits{QPS: -1}}, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", kind)
				_, _ = w.Write(data[:n])
			})
			if got, err := List(t.Context(), c, Pods, "", metav1.ListOptions{}); err == nil {
				// What follows the list in its envelope may be missing.
				if as != asProtobuf || len(got.(*corev1.PodList).Items) != 2 {
					t.Errorf("%s: %d of %d bytes are a list", kind, n, whole)
				}
			}
		}
	}
}
