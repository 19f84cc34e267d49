package pods

import (
	"reflect"
	"testing"
)

func TestSeedDeterminesThePod(t *testing.T) {
	for number := range uint64(50) {
		a, b := New(1, number), New(1, number)
		p, q := a.Pod(), b.Pod()
		a.AddLifecycle(p)
		b.AddLifecycle(q)
		if !reflect.DeepEqual(p, q) || !reflect.DeepEqual(a.History(p), b.History(q)) {
			t.Fatalf("pod %d differs between two generators", number)
		}
	}
	if reflect.DeepEqual(New(1, 1).Pod(), New(2, 1).Pod()) {
		t.Error("two seeds generate the same pod")
	}
}
