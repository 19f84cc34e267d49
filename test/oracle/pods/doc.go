// Package pods makes up pods and histories for the oracle: the same for the same seed, every field that is carried out,
// and values at the edges of what is allowed, or just beyond where a [Maker] is told to be bad. It knows nothing of either
// side. Start reading at maker.go.
package pods
