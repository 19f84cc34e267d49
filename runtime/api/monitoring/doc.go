// Package monitoring reports the agent's state to machines: health and metrics over HTTP on this machine, and
// notifications to systemd. Paths, texts and metric names are the kubelet's where it has them.
//
// It only checks and counts. A check that hangs costs its own line in the response and delays no other. Start with
// check.go, then server.go; metrics.go has the names, systemd.go the watchdog.
package monitoring
