// Package classes follows the RuntimeClasses of the cluster, and finds the runtime handler of a pod of the API server
// (ADR 056). Start reading at classes.go.
package classes
