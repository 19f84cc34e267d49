package listed

import (
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

// newList returns a list of Services with a value of some bytes each.
func newList(t *testing.T, bytes int) *List[corev1.Service, string] {
	t.Helper()
	c, err := client.New(client.Options{Config: &rest.Config{Host: "http://localhost"}})
	must.OK(t, err)
	l, err := New(c, client.Services, Options[corev1.Service, string]{
		Value: func(*corev1.Service) (string, bool) { return strings.Repeat("x", bytes), true },
	})
	must.OK(t, err)
	return l
}

func add(t *testing.T, l *List[corev1.Service, string], namespace string, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		must.OK(t, (*store[corev1.Service, string])(l).Add(&corev1.Service{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: fmt.Sprint("s", i),
		}}))
	}
}

func TestOneNamespaceTakesNoRoomOfAnother(t *testing.T) {
	l := newList(t, 0)
	add(t, l, "few", 0, 10)
	add(t, l, "many", 0, maxValues+10)
	add(t, l, "few", 10, 20)
	if few, many := l.In("few"), l.In("many"); len(few) != 20 || len(many) != 0 || l.count != 20 {
		t.Errorf("%d of few, %d of many, %d counted", len(few), len(many), l.count)
	}
}

func TestAListThatIsTooLargeIsKeptWithoutItsLargestNamespace(t *testing.T) {
	l := newList(t, 1000)
	add(t, l, "few", 0, 10)
	add(t, l, "many", 0, maxListBytes/1000)
	data := l.fitting()
	kept := map[string]map[string]string{}
	must.OK(t, bounded.JSON(data, maxListBytes, &kept))
	if len(kept["few"]) != 10 || len(kept) != 1 || len(l.In("many")) == 0 {
		t.Errorf("kept %d bytes of %d namespaces, %d of few", len(data), len(kept), len(kept["few"]))
	}
}
