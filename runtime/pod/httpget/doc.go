// Package httpget builds the requests of httpGet actions by the kubelet's rules, for probes and lifecycle hooks. It
// sends nothing, looks up no address, and does not interpret responses. Start reading at Request.
package httpget
