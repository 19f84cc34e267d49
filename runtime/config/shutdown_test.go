package config

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func TestShutdownGroupsAreTheKubelets(t *testing.T) {
	for want, s := range map[string]Shutdown{
		"":                        {},
		"0:20s 2000000000:10s":    {Period: 30 * time.Second, CriticalPods: 10 * time.Second},
		"0:30s 2000000000:0s":     {Period: 30 * time.Second},
		"-5:10s 0:20s 100:1m0s":   {ByPriority: []ShutdownGroup{{100, 60}, {-5, 10}, {0, 20}}},
		"0:1s 2000000000:0s half": {Period: 1500 * time.Millisecond},
	} {
		var got []string
		for _, g := range s.Groups() {
			got = append(got, fmt.Sprintf("%d:%s", g.GetPriority(), g.GetGrace().AsDuration()))
		}
		if text := strings.Join(got, " "); text != strings.TrimSuffix(want, " half") {
			t.Errorf("%+v: groups %q, want %q", s, text, want)
		}
		if errs := s.validate(); len(errs) > 0 {
			t.Errorf("%+v: %v", s, errs)
		}
	}
	groups := []ShutdownGroup{{0, 1}}
	for want, s := range map[string]Shutdown{
		"shutdownGracePeriod: 10ms is neither":          {Period: 10 * time.Millisecond},
		"shutdownGracePeriodCriticalPods: 20s is above": {Period: 10 * time.Second, CriticalPods: 20 * time.Second},
		"shutdownGracePeriodByPodPriority and shutdownGracePeriod": {
			Period: time.Minute, ByPriority: groups,
		},
		"-1 seconds of priority 7": {ByPriority: []ShutdownGroup{{7, -1}}},
	} {
		if errs := fmt.Sprint(s.validate()); !strings.Contains(errs, want) {
			t.Errorf("%+v: %s, want %q", s, errs, want)
		}
	}
}
