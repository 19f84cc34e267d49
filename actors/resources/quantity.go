package resources

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Bytes returns a quantity as a whole number, rounded up. One that an int64 cannot hold becomes the nearest that it
// can: the methods of a Quantity wrap around.
func Bytes(q *resource.Quantity) int64 {
	if n, whole := q.AsInt64(); whole {
		return n
	}
	if beyond(q, resource.NewQuantity(math.MaxInt64, resource.DecimalSI)) {
		return limit(q)
	}
	return q.Value()
}

// Millis returns a quantity in thousandths, as Bytes does in units.
func Millis(q *resource.Quantity) int64 {
	if n, whole := q.AsInt64(); whole && n > -math.MaxInt64/1000 && n < math.MaxInt64/1000 {
		return 1000 * n
	}
	if beyond(q, resource.NewMilliQuantity(math.MaxInt64, resource.DecimalSI)) {
		return limit(q)
	}
	return q.MilliValue()
}

// InRange reports whether an int64 holds a quantity of a resource, CPU in thousandths and all others in units.
func InRange(name corev1.ResourceName, q resource.Quantity) bool {
	if name == corev1.ResourceCPU {
		return !beyond(&q, resource.NewMilliQuantity(math.MaxInt64, resource.DecimalSI))
	}
	return !beyond(&q, resource.NewQuantity(math.MaxInt64, resource.DecimalSI))
}

// beyond reports whether a quantity is larger than most, or smaller than its negative.
func beyond(q, most *resource.Quantity) bool {
	absolute := q.DeepCopy() // comparing changes a quantity
	if absolute.Sign() < 0 {
		absolute.Neg()
	}
	return absolute.Cmp(*most) > 0
}

func limit(q *resource.Quantity) int64 {
	if q.Sign() < 0 {
		return math.MinInt64
	}
	return math.MaxInt64
}
