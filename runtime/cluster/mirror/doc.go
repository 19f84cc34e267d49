// Package mirror shows static pods at the API server: it creates, replaces and deletes their mirror pods (ADR 054). A
// mirror pod has no effect on the containers of its pod. Start with mirror.go, which is pure: what a mirror pod is.
package mirror
