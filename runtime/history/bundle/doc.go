// Package bundle writes and reads bundles: a journal, or a part of one, in a file with all that is needed to fold it.
// docs/BUNDLE.md describes the bytes. A Reader is a history.Reader; it trusts no byte of its file, and reports where
// damage is and what to do. Export selects what a bundle holds, and redacts it. Start with reader.go.
package bundle
