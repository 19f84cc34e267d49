// Package gate reads the conditions of pods' readiness gates, which an external controller sets. For a static pod it
// reads the file conditions.yaml in the pod's directory, a map from type to True, False or Unknown; for a pod of the
// API server it reads the newest object that the watch has shown. It reports changes and decides nothing: the pod's
// actor decides what follows. Start with driver.go.
package gate
