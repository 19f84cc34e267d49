// Package stats measures what the node, its pods and their containers use, when somebody asks (ADR 046): CPU, memory
// and pressure from cgroups, network from /proc, writable layers from the runtime, volumes and logs from the file
// system. A figure is never older than its period and never read twice within it, however many ask. What is slow or may
// hang is measured beside the answer, which waits for it only so long. It decides nothing, records nothing, and does
// nothing while nobody asks. Start reading at stats.go, then summary.go.
package stats
