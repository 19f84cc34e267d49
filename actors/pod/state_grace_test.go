package pod

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestGracePeriodOfADeletionReplacesThePodsOwn(t *testing.T) {
	seconds := func(n int64) *int64 { return &n }
	for _, c := range []struct {
		deletion, own *int64
		want          time.Duration
	}{
		{nil, nil, defaultGrace}, {nil, seconds(7), 7 * time.Second},
		{seconds(3), seconds(7), 3 * time.Second}, {seconds(0), seconds(7), 7 * time.Second},
	} {
		p := newTestPod(t, nil)
		p.manifest = &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{DeletionGracePeriodSeconds: c.deletion},
			Spec:       corev1.PodSpec{TerminationGracePeriodSeconds: c.own},
		}
		if got := p.grace(); got != c.want {
			t.Errorf("%v, %v: got %s, want %s", c.deletion, c.own, got, c.want)
		}
	}
}
