package rotate

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func TestPlan(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 0, 0, 5, time.FixedZone("", 3600))
	at := func(n int) string { return fmt.Sprintf("0.log.20261121-08000%d", n) }
	five := Policy{MaxFiles: 5}
	for name, c := range map[string]struct {
		names  []string
		rotate bool
		policy Policy
		want   Steps
	}{
		"first":  {rotate: true, policy: five, want: Steps{Rename: "0.log.20261121-090000"}},
		"second": {[]string{at(1)}, true, five, Steps{Rename: "0.log.20261121-090000", Compress: []string{at(1)}}},
		"full": {[]string{at(4), at(3) + ".gz", at(1) + ".gz", at(2) + ".gz"}, true, five,
			Steps{Rename: "0.log.20261121-090000", Excess: []string{at(1) + ".gz"}, Compress: []string{at(4)}}},
		"two files": {[]string{at(1), at(2)}, true, Policy{MaxFiles: 2},
			Steps{Rename: "0.log.20261121-090000", Excess: []string{at(1), at(2)}}},
		"after a rotation": {[]string{at(1), at(2), at(3)}, false, five, Steps{Compress: []string{at(1), at(2)}}},
		"left by a crash": {[]string{at(1) + ".tmp", at(2), at(2) + ".gz", at(2) + ".gz.tmp", at(3), at(4)}, false, five,
			Steps{Left: []string{at(1) + ".tmp", at(2), at(2) + ".gz.tmp"}, Compress: []string{at(3)}}},
		"fewer than before": {[]string{at(1), at(2), at(3), at(4), at(5)}, false, Policy{MaxFiles: 3},
			Steps{Excess: []string{at(1), at(2), at(3)}, Compress: []string{at(4)}}},
		"of others": {[]string{"0.log", "0.logs", "0.log.gz", "10.log.20261121-080001", "0.log.20261121-080001.bz2",
			"0.log.2026112-0080001", "0.log.20261121-08000x", "0.log.20261121-080001.gz.gz"}, true, five,
			Steps{Rename: "0.log.20261121-090000"}},
		"clock set back": {[]string{"0.log.20261121-090000", "0.log.20261121-093000"}, true, five,
			Steps{Rename: "0.log.20261121-093001", Compress: []string{"0.log.20261121-090000", "0.log.20261121-093000"}}},
		"named for no time": {[]string{"0.log.20261121-085959.gz", "0.log.99999999-999999.gz", "0.log.20991231-235959.gz"},
			true, five, Steps{Rename: "0.log.20261121-090000"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Plan("0.log", c.names, c.rotate, now, c.policy)
			if !slices.Equal(got.Left, c.want.Left) || !slices.Equal(got.Excess, c.want.Excess) ||
				got.Rename != c.want.Rename || !slices.Equal(got.Compress, c.want.Compress) {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}
