// Package criproxy stands between an agent and its runtime and notes every CRI call that passes: which, when it came and
// when it was answered. It changes no byte and knows of messages only where a pod's name stands in them. Start with
// proxy.go.
package criproxy
