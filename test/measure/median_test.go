package measure

import "testing"

func TestMedianIsTheMiddleOfTheSortedValues(t *testing.T) {
	for _, c := range []struct {
		values []float64
		want   float64
		ok     bool
	}{{nil, 0, false}, {[]float64{7}, 7, true}, {[]float64{9, 1, 2}, 2, true}, {[]float64{9, 1, 3, 2}, 2.5, true}} {
		if got, ok := Median(c.values); got != c.want || ok != c.ok {
			t.Errorf("%v: %v, %v; want %v, %v", c.values, got, ok, c.want, c.ok)
		}
	}
}
