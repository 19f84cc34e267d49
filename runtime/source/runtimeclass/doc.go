// Package runtimeclass reads the runtime classes of a file or directory (ADR 020). It reads changed files on each call
// and watches nothing: sources call it with each read of their own. Package manifest applies the classes to pods. Start
// with Current in directory.go.
package runtimeclass
