// Package own is the register of the paths that the agent creates below its root directory. Who creates one names it
// here, and takes its name from here: reset, preflight and docs/FILES.md know the paths of the agent from this list
// only.
//
// It imports nothing of the module, so that everybody can import it. Start reading at own.go.
package own
