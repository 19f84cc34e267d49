// Package health polls the container runtime's health and reports every change. It decides nothing: actors decide which
// calls wait for a runtime that is not ready. Start reading at Check in health.go.
package health
