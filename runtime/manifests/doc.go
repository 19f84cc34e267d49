// Package manifests keeps the manifests of pods in memory while an actor may need them, by their digests. It reads one
// that it has not from where manifests are stored, and decides nothing. Start at Cache.
package manifests
