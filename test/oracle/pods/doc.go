// Package pods generates pods and histories for the oracle: the same ones for the same seed, with every field that the
// agent carries out, and with values at the limits of validity, or beyond if [Generator.Bad] is set. It depends on
// neither side. Start reading at generator.go.
package pods
