// Package api is the backing of the store of objects for pods of the API server (ADR 056): ConfigMaps and Secrets by one
// Reflector each, and service account tokens by TokenRequest. Contents are in memory only; what is kept for when the API
// server is away is runtime/objects/kept's. Start reading at backing.go.
package api
