// Package objects is the store of what pods refer to: ConfigMaps, Secrets, service account tokens, trust bundles
// (ADR 038) and certificates (ADR 102). It watches an object while a pod refers to it, and reports its version and a
// keyed digest of its contents, never the contents. Drivers read these through Getter. It may not decide what a pod
// does with them. Start reading at objects.go.
package objects
