package measure

import "slices"

// Median returns the median of values in any order; of an even number, the mean of the two in the middle. It is not ok
// without any.
func Median(values []float64) (median float64, ok bool) {
	if len(values) == 0 {
		return 0, false
	}
	xs := slices.Sorted(slices.Values(values))
	return (xs[(len(xs)-1)/2] + xs[len(xs)/2]) / 2, true
}
