// Package gate reads the conditions of pods' readiness gates from the file conditions.yaml in the pod's directory, a
// map from type to True, False or Unknown, which an external controller writes. It reports changes and decides nothing:
// the pod's actor decides what follows. Start with driver.go.
package gate
