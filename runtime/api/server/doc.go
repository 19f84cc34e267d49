// Package server tells machines how the agent is: health and metrics over HTTP on this machine, and
// systemd's notifications. Paths, words and metric names are the kubelet's where it has them.
//
// It asks and counts; it decides nothing, and a probe that hangs holds up nobody but its own line in
// the answer. Start with check.go, then server.go; metrics.go has the names, systemd.go the watchdog.
package server
