// Package gate reads the conditions of pods' readiness gates, which an external controller sets: those of a static pod
// from the file conditions.yaml in its directory, a map from type to True, False or Unknown; those of a pod of the API
// server from the newest object that its watch has shown. It reports changes and decides nothing: the pod's actor
// decides what follows. Start with driver.go.
package gate
