// Package podmetrics computes the kubelet's metrics of pods from records and finished calls: latencies of starts, what
// pods have under way, rejections, sandboxes and containers that were started. Its counters begin with the agent.
package podmetrics
