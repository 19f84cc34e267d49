package simulation

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/journalet/journalet/messages/journaletv1"
)

// TestGraceCountsFromTheEndThatThePodHandlesFirst: a deletion at 9 s is stored as record 5. The pod decides to end by
// record 6, first on what was known at 4 s, before the deletion, and then on the deletion itself.
func TestGraceCountsFromTheEndThatThePodHandlesFirst(t *testing.T) {
	x := &container{id: "c1", name: "main"}
	m := &corev1.Pod{Spec: corev1.PodSpec{TerminationGracePeriodSeconds: ptr.To[int64](30)}}
	for _, c := range []struct {
		cause            uint64
		at, begin, grace time.Duration
	}{
		{4, 4 * time.Second, 4 * time.Second, 30 * time.Second},
		{5, 9 * time.Second, 9 * time.Second, 60 * time.Second},
		{5, 4 * time.Second, 9 * time.Second, 60 * time.Second}, // the clock was set since
	} {
		h := newJudge(&sim{}).history("pod")
		h.onDeletion(5, 9*time.Second, &journaletv1.ApiPod{Deleted: true, DeletionGraceSeconds: 60})
		h.endsItself(6, c.cause, c.at)
		if grace := h.graceIn(m, x); h.endsAt != c.begin || grace != c.grace || h.endsBy != 5 {
			t.Errorf("decided on record %d: it ends since %s by record %d, grace %s; want %s, 5, %s", c.cause, h.endsAt,
				h.endsBy, grace, c.begin, c.grace)
		}
	}
}
