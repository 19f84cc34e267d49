// Package api is the backing of the store of objects for pods of the API server (ADR 056): ConfigMaps, Secrets and
// trust bundles of a name by one Reflector each, trust bundles of a signer by one for all that select among them,
// service account tokens by TokenRequest, and certificates by PodCertificateRequest (ADR 102). It holds contents in
// memory only. Start reading at backing.go.
package api
