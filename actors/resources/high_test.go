package resources

import "testing"

func TestMemoryIsThrottledBetweenRequestAndLimit(t *testing.T) {
	const page, mib = 4096, 1 << 20
	for name, c := range map[string]struct {
		request, limit int64
		factor         float64
		want           int64
	}{
		"part of what is beyond":    {100 * mib, 200 * mib, 0.5, 150 * mib},
		"whole pages":               {100 * mib, 200 * mib, 0.9, 199229440},
		"no request":                {0, 100 * mib, 0.9, 94371840},
		"all of it":                 {100 * mib, 200 * mib, 1, 200 * mib},
		"guaranteed":                {100 * mib, 100 * mib, 0.9, 0},
		"no limit":                  {100 * mib, 0, 0.9, 0},
		"less than a page beyond":   {100 * mib, 100*mib + 4000, 0.9, 0},
		"not configured":            {100 * mib, 200 * mib, 0, 0},
		"request larger than limit": {200 * mib, 100 * mib, 0.9, 0},
	} {
		if got := MemoryHigh(c.request, c.limit, c.factor, page); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
