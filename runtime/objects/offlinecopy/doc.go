// Package offlinecopy keeps copies of what pods of the API server were given, for a start without the API server (ADR
// 057): ConfigMaps and lists as they are, Secrets and tokens sealed with a key that is not in the same place, or not at
// all. Start reading at offlinecopy.go.
package offlinecopy
