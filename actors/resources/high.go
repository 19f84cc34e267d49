package resources

import "math"

// MemoryHigh returns the memory, in bytes, above which the kernel throttles a container or a pod, rounded down to whole
// pages (KEP-2570): its request, plus the memory between request and limit times factor, which is above 0 and at most
// 1. It is 0, no throttling, if the limit is not above the request, or there is no limit.
func MemoryHigh(request, limit int64, factor float64, pageBytes int64) int64 {
	if limit <= request || factor <= 0 || pageBytes <= 0 {
		return 0
	}
	high := int64(math.Floor(float64(request)+(float64(limit)-float64(request))*factor)/float64(pageBytes)) * pageBytes
	if high <= request {
		return 0
	}
	return high
}
