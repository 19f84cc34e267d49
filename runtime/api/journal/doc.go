// Package journal serves the journal over HTTP, for people who reach the node through the API server (ADR 093): why a
// pod is as it is, its events, past and live, and a bundle of its records. The package kubelet puts it below /journal/
// of its doors, which know who asks. Start with serve.go.
package journal
