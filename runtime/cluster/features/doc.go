// Package features says which features of a kubelet the Node declares, and which of these a pod needs. It does no I/O.
// Start reading at features.go.
package features
