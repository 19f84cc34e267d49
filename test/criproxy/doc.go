// Package criproxy stands between an agent and its runtime. It notes every CRI call that passes: which, when it came and when it was
// answered; it holds those that a test names, and sends events of a test's own. It changes no byte, knows of messages only where a pod's name stands in
// them, and answers nothing by itself but commands in containers, where it is asked to: running them costs a machine more than any
// agent. Start with proxy.go.
package criproxy
