// Package api is the backing of the store of objects for pods of the API server (ADR 056): ConfigMaps and Secrets by
// one Reflector each, and service account tokens by TokenRequest. It holds contents in memory only. Start reading at
// backing.go.
package api
