package tune

import (
	"strings"
	"testing"
	"time"
)

func TestCostIsAnEstimateWithinWhatWasMeasured(t *testing.T) {
	second := Settings{Samples: true, Period: time.Second}
	for want, c := range map[string]struct {
		s Settings
		l Load
	}{
		"an estimated 147 of the 196 millicores that containerd and 100 shims took over 2s, at 1.5 millicores a pod": {
			second, Load{Pods: 100, Millicores: 196, Measured: 2 * time.Second}},
		"an estimated 14 of the 96 millicores that containerd and 100 shims took over 2s, at 0.1 millicores a pod": {
			Settings{Samples: true, Period: 10 * time.Second}, Load{Pods: 100, Millicores: 96, Measured: 2 * time.Second}},
		"a large part of the 90 millicores that containerd and 100 shims took over 2s; the estimate of 1.5 millicores " +
			"a pod would be 147": {second, Load{Pods: 100, Millicores: 90, Measured: 2 * time.Second}},
		"no pod runs now, and each would cost some 1.5 millicores":             {second, Load{Millicores: 9, Measured: 1}},
		"an estimated 147 millicores for 100 pods, at 1.5 millicores for each": {second, Load{Pods: 100}},
	} {
		if got := c.s.Cost(c.l); got != want {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
	absurd := Settings{Samples: true, Period: 1}
	if got := absurd.Cost(Load{Pods: 4096}); strings.Contains(got, "-") {
		t.Error(got)
	}
}

func TestNothingOfAConfigurationIsShown(t *testing.T) {
	for _, text := range []string{
		"", "secret", `"secret"`, `{"secret": 1}`, `{"containerd": "secret"}`, `{"containerd": {}, "secret`,
		`{"containerd": {}, "statsCollectPeriod": "secret"}`, `{"containerd": {}, "statsCollectPeriod": "-1s"}`,
		strings.Repeat("[", 1<<19), `{"containerd":{},"x":"` + strings.Repeat("secret", 1<<18) + `"}`,
	} {
		if s, err := FromStatus(text); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%.40q: %+v, %v", text, s, err)
		}
	}
}
