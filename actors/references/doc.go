// Package references finds the objects that a pod refers to (ADR 038): ConfigMaps, Secrets, service account tokens and
// trust bundles. The pod's decider and the drivers share it, so that they mean the same object. It is pure, and no
// actor. Start reading at References.
package references
