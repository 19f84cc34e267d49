// Package health asks the container runtime how it is and tells every change, and only changes. It may not judge: that
// a runtime which is not ready holds up calls, and which, is the actors' business. Start reading at Check in health.go.
package health
