package resources

import (
	"math"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func TestQuantitiesBeyondInt64BecomeTheNearest(t *testing.T) {
	for text, want := range map[string]struct{ bytes, millis int64 }{
		"0":                    {0, 0},
		"1500m":                {2, 1500},
		"100Mi":                {100 << 20, 1000 * (100 << 20)},
		"-1":                   {-1, -1000},
		"9223372036854775807":  {math.MaxInt64, math.MaxInt64},
		"9223372036854775":     {9223372036854775, 9223372036854775000},
		"9223372036854775.807": {9223372036854776, math.MaxInt64},
		"9223372036854775808":  {math.MaxInt64, math.MaxInt64},
		"18446742974197923840": {math.MaxInt64, math.MaxInt64}, // its Value is -1 TiB
		"1e60":                 {math.MaxInt64, math.MaxInt64},
		"-1e60":                {math.MinInt64, math.MinInt64},
	} {
		q := resource.MustParse(text)
		if got := Bytes(&q); got != want.bytes {
			t.Errorf("%s: %d bytes, want %d", text, got, want.bytes)
		}
		if got := Millis(&q); got != want.millis {
			t.Errorf("%s: %d thousandths, want %d", text, got, want.millis)
		}
		if q.String() != resource.NewQuantity(0, "").String() && q.IsZero() {
			t.Errorf("%s was changed", text)
		}
	}
}

func TestRangeIsInTheUnitOfTheResource(t *testing.T) {
	most, more := resource.MustParse("9223372036854775.807"), resource.MustParse("9223372036854775808")
	if !InRange(corev1.ResourceCPU, most) || InRange(corev1.ResourceCPU, resource.MustParse("9223372036854775808m")) ||
		!InRange(corev1.ResourceMemory, resource.MustParse("9223372036854775807")) || InRange(corev1.ResourceMemory, more) {
		t.Error("a range that is not int64's")
	}
}
