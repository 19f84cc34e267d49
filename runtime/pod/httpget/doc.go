// Package httpget makes the requests of httpGet actions, by the kubelet's rules: one place for probes and lifecycle hooks. It
// sends nothing, and knows neither where a pod is nor what an answer means. Start reading at Request.
package httpget
