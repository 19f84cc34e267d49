// Package runtimeclass keeps the runtime classes that a file or folder holds (ADR 020). It reads them when they are asked for and
// have changed, and watches nothing: what needs them asks with each reading of its own. What a class means for a pod is package
// manifest's. Start with Current in directory.go.
package runtimeclass
