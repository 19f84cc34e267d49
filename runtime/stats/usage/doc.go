// Package usage reads what a cgroup uses, from its files: CPU, memory, swap, processes, devices and pressure, on cgroup
// v1 and v2. It reads files that only the kernel writes, each once and into one buffer, and keeps nothing: cost and age
// are the caller's. It may not write, and knows nothing of pods. What a kernel, or a cgroup without a controller, does
// not have is missing in the result, not zero. Start reading at usage.go; parse.go is pure.
package usage
