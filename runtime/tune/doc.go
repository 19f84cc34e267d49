// Package tune knows what a container runtime does beyond what the agent needs, what it costs, and how containerd is
// set not to do it: by a drop-in that is shown before it is written, judged by containerd itself, and removed again if
// it changes anything else (ADR 097). It finds no process and restarts none: package preflight finds, an operator
// restarts. Start with Settings in settings.go; dropin.go writes.
package tune
