// Package gate reads what is said of the conditions that the readiness gates of pods name: the file conditions.yaml in a
// pod's folder, a map from type to True, False or Unknown, written by whoever decides it. It tells when that has
// changed, and decides nothing: what follows is for the pod. Start with driver.go.
package gate
