// Package install puts the program and its systemd unit onto a machine that has no package of it, and takes them off
// again (ADR 091). It changes files only: what is to be started or stopped is its caller's. Start with plan.go.
package install
